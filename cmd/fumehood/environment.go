package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxEnvFile = 1 << 20 // bytes

// environmentFlags set the program's variables. Nothing else of our environment goes in.
type environmentFlags struct {
	env        []string
	envFiles   []string
	passEnv    []string
	passSecret []string
}

func (f *environmentFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set a variable, `NAME=VALUE`; nothing is inherited (repeatable)")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in `FILE`, NAME=VALUE a line (repeatable)")
	flags.StringSliceVar(&f.passEnv, "pass-env", nil, "hand on our variable `NAME` (repeatable)")
	flags.StringSliceVar(&f.passSecret, "pass-secret", nil, "the same for a `NAME` that looks like a secret (repeatable)")
}

// secretWords mark the names of variables that are likely secrets.
var secretWords = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"}

func looksSecret(name string) bool {
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(strings.ToUpper(name), word) })
}

// environment gathers the variables. Of two with one name, the later wins: files first, --env last.
func (a *app) environment(f *environmentFlags) ([]string, error) {
	var env []string
	for _, name := range f.envFiles {
		variables, err := a.readEnvFile(name)
		if err != nil {
			return nil, err
		}
		env = append(env, variables...)
	}
	for _, name := range f.passEnv {
		if looksSecret(name) {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "--pass-env", Msg: name + " looks like a secret, and the code in the sandbox could print it",
				Fix: "to use it without the code having it: --secret " + name + "@HOST; if the code may have it: --pass-secret " + name}
		}
		kv, err := a.passed("--pass-env", name)
		if err != nil {
			return nil, err
		}
		env = append(env, kv)
	}
	for _, name := range f.passSecret {
		kv, err := a.passed("--pass-secret", name)
		if err != nil {
			return nil, err
		}
		env = append(env, kv)
	}
	for _, kv := range f.env {
		if !strings.Contains(kv, "=") {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "--env", Msg: fmt.Sprintf("%.64q has no value; write NAME=VALUE", kv),
				Fix: "to pass on the variable of this environment: --pass-env " + kv}
		}
		env = append(env, kv)
	}
	return env, nil
}

// passed returns a variable of our environment.
func (a *app) passed(flag, name string) (string, error) {
	value, ok := a.LookupEnv(name)
	if !ok {
		return "", sandbox.Invalidf(flag, "%.64q is not set", name)
	}
	return name + "=" + value, nil
}

// readEnvFile reads variables, NAME=VALUE a line, values without quotes or escapes. Blank lines and those that begin with # are left out.
func (a *app) readEnvFile(name string) ([]string, error) {
	text, err := a.readNamed(name, maxEnvFile, sandbox.FormatBytes(maxEnvFile))
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--env-file", Err: err}
	}
	var env []string
	for i, line := range strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n") {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("--env-file %s: line %d", name, i+1)
		variable, _, assigned := strings.Cut(line, "=")
		switch {
		case variable == "" || strings.ContainsAny(variable, " \t"):
			e := sandbox.Invalidf(where, "is not NAME=VALUE")
			e.Fix = "write NAME=VALUE, without export and without quotes"
			return nil, e
		case !assigned: // code may have written the file, and must not choose which of our variables it gets
			e := sandbox.Invalidf(where, "has no value")
			e.Fix = "write NAME=VALUE; to hand on ours: --pass-env " + variable
			return nil, e
		}
		env = append(env, line)
	}
	return env, nil
}
