package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// CheckEnv checks that each variable is "NAME=value", has a name that the shell accepts, and that they fit execve.
func CheckEnv(field string, env []string) error {
	total := 0
	for _, kv := range env {
		total += len(kv) + 1
		name, value, found := strings.Cut(kv, "=")
		switch {
		case !found:
			return sandbox.Invalidf(field, "%.40q has no '='; write NAME=value", kv)
		case !validName(name):
			return sandbox.Invalidf(field, "%.40q is not a name: use letters, digits and '_', and no digit first", name)
		case strings.IndexByte(value, 0) >= 0:
			return sandbox.Invalidf(field, "the value of %.40s holds a NUL byte", name)
		case len(kv) > MaxWord:
			return &sandbox.Error{Kind: sandbox.TooLarge, Op: field,
				Msg: fmt.Sprintf("%.40s is longer than 128KiB", name)}
		case name == guest.EnvExecution:
			return sandbox.Invalidf(field, "%s is reserved", name)
		}
	}
	if total > MaxWords {
		return tooLarge(field, total, MaxWords)
	}
	return nil
}

// checkVariables is CheckEnv for the variables of a request.
func checkVariables(env []string) error {
	if len(env) > MaxVariables {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "env",
			Msg: fmt.Sprintf("has more than %d entries", MaxVariables)}
	}
	return CheckEnv("env", env)
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Env returns the environment of a process in a sandbox: variables that tell the runtimes of all languages the limits,
// the sandbox's own, and more, of which later ones win. lang is the language of the process; nil is none.
func (r *Rules) Env(spec sandbox.Spec, lang *sandbox.Language, more ...[]string) []string {
	var sized []string
	for i := range r.Languages.All {
		l := &r.Languages.All[i]
		if spec.Root.Writable { // what a builder installs is for sandboxes of every size
			break
		}
		if l.Sized != nil && (lang == nil || lang.Name != l.Name || lang.SizedArgs == nil) {
			sized = append(sized, l.Sized(spec.Limits)...)
		}
	}
	return MergeEnv(append([][]string{sized, spec.Env}, more...)...)
}

// MergeEnv merges the lists. Of two variables with one name, the later value wins, in the place of the first.
func MergeEnv(lists ...[]string) []string {
	most := 0
	for _, list := range lists {
		most += len(list)
	}
	out, at := make([]string, 0, most), make(map[string]int, most)
	for _, list := range lists {
		for _, kv := range list {
			name, _, _ := strings.Cut(kv, "=")
			if i, seen := at[name]; seen {
				out[i] = kv
				continue
			}
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

// AddPath appends a folder to a variable that lists folders.
func AddPath(env []string, name, folder string) []string {
	for i, kv := range env {
		if value, found := strings.CutPrefix(kv, name+"="); found && value != "" {
			env[i] = kv + ":" + folder
			return env
		}
	}
	return MergeEnv(env, []string{name + "=" + folder})
}

// AddPaths appends folders, each given as the name of a variable, "=" and the folder, and returns a new environment.
func AddPaths(env, paths []string) []string {
	env = slices.Clone(env)
	for _, path := range paths {
		name, folder, _ := strings.Cut(path, "=")
		env = AddPath(env, name, folder)
	}
	return env
}

// PrependPaths puts folders, as in AddPaths, before those of their variables, and returns a new environment.
func PrependPaths(env, paths []string) []string {
	before := MergeEnv(paths)
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); value != "" {
			if i := slices.IndexFunc(before, func(p string) bool { return strings.HasPrefix(p, name+"=") }); i >= 0 {
				before[i] += ":" + value
			}
		}
	}
	return MergeEnv(env, before)
}
