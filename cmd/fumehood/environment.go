package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxEnvFile = 1 << 20 // bytes

// environmentFlags set the program's variables. It inherits no others.
type environmentFlags struct {
	env        []string
	envFiles   []string
	passEnv    []string
	passSecret []string
}

func (f *environmentFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set a variable, `NAME=VALUE`; nothing is inherited (repeatable)")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in `FILE`, NAME=VALUE a line (repeatable)")
	flags.StringSliceVar(&f.passEnv, "pass-env", nil, "pass the variable `NAME` to the program (repeatable)")
	flags.StringSliceVar(&f.passSecret, "pass-secret", nil,
		"the same for a `NAME` that looks like a secret (repeatable)")
}

// secretWords mark the names of variables that are likely secrets.
var secretWords = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"}

func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// environment returns the variables. Of two with one name, the later wins: files first, --env last.
func (a *app) environment(f *environmentFlags) ([]string, error) {
	var env []string
	for _, name := range f.envFiles {
		variables, err := a.readEnvFile(name)
		if err != nil {
			return nil, err
		}
		env = append(env, variables...)
	}
	for i, name := range slices.Concat(f.passEnv, f.passSecret) {
		flag := "--pass-secret"
		if i < len(f.passEnv) {
			flag = "--pass-env"
		}
		if flag == "--pass-env" && looksSecret(name) {
			return nil, invalid("--pass-env", name+" looks like a secret, and the code in the sandbox could print it",
				"to hide it from the code: --secret "+name+"@HOST; if the code may have it: --pass-secret "+name)
		}
		value, ok := a.LookupEnv(name)
		if !ok {
			return nil, sandbox.Invalidf(flag, "%.64q is not set", name)
		}
		env = append(env, name+"="+value)
	}
	for _, kv := range f.env {
		if !strings.Contains(kv, "=") {
			return nil, invalid("--env", fmt.Sprintf("%.64q has no value; write NAME=VALUE", kv),
				"to pass on the variable of this environment: --pass-env "+kv)
		}
		env = append(env, kv)
	}
	return env, nil
}

// readEnvFile reads variables, NAME=VALUE a line, without quotes or escapes. It skips blank lines and comments (#).
func (a *app) readEnvFile(name string) ([]string, error) {
	text, err := a.host().Read("--env-file", name, maxEnvFile)
	if err != nil {
		return nil, err
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
			return nil, invalid(where, "is not NAME=VALUE", "write NAME=VALUE, without export and without quotes")
		case !assigned: // code may have written the file, and must not choose which of our variables it gets
			return nil, invalid(where, "has no value", "write NAME=VALUE; to pass on ours: --pass-env "+variable)
		}
		env = append(env, line)
	}
	return env, nil
}
