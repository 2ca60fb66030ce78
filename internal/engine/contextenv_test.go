package engine_test

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestContextEnv: a context has its variables until it ends, and those of a run until the run ends.
func TestContextEnv(t *testing.T) {
	_, s := contextRig(t)
	for language, cell := range map[string]struct{ show, set, exit string }{
		"python": {"import os\nprint(*[os.environ.get(n, '-') for n in ('A', 'B', 'kind')], " +
			"os.popen('echo $A').read(), end='')",
			"os.environ['B'] = 'changed'", "raise SystemExit(3)"},
		"javascript": {"console.log(['A', 'B', 'kind'].map((n) => process.env[n] ?? '-').join(' ') + ' ' + " +
			"require('child_process').execSync('echo $A').toString().trim())",
			"process.env.B = 'changed'", "process.exit(3)"},
		"bash": {"echo ${A--} ${B--} ${kind--} $(bash -c 'echo $A')", "B=changed", "exit 3"},
	} {
		c, err := s.CreateContext(within(t), engine.ContextRequest{Language: language,
			Env: []string{"A=context", "B=\n two \"'$x"}})
		if err != nil {
			t.Fatal(language, err)
		}
		if name := c.Info().Name; !strings.HasPrefix(name, "context-") || c.Info().ID == "" {
			t.Errorf("%s: %q", language, name)
		}
		run := func(text string, env ...string) string {
			t.Helper()
			x := code(language, text)
			x.Context, x.Request.Env = c.Info().Name, env
			r := do(t, s, x)
			if r.Status != sandbox.StatusSucceeded && r.ExitCode != 3 {
				t.Errorf("%s: %s: %+v: %s", language, text, r.Status, r.Stderr.Head)
			}
			return strings.Join(strings.Fields(string(r.Stdout.Head)), " ")
		}
		for i, step := range []struct {
			code string
			env  []string
			want string
		}{
			{cell.show, nil, "context two \"'$x - context"},
			{cell.show, []string{"A=run", "kind=k", "C="}, "run two \"'$x k run"},
			{cell.show, nil, "context two \"'$x - context"},
			{cell.set, []string{"B=run"}, ""},
			{cell.show, nil, "context two \"'$x - context"},
			{cell.set, nil, ""},
			{cell.exit, []string{"A=run"}, ""},
			{cell.show, nil, "context changed - context"},
		} {
			if got := run(step.code, step.env...); got != step.want {
				t.Errorf("%s, step %d: %q, want %q", language, i, got, step.want)
			}
		}
	}
}

// TestLargeEnv: the variables of a sandbox and of each context fit into a program's start and into the record.
func TestLargeEnv(t *testing.T) {
	rig, _ := contextRig(t)
	var env []string
	for _, name := range []string{"A", "B", "C", "D", "E"} {
		env = append(env, name+"="+strings.Repeat("x", 110<<10))
	}
	_, _, err := rig.Engine.Create(within(t), engine.Create{Spec: sandbox.Spec{Env: env}})
	if sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a sandbox: %v", err)
	}
	s := rig.make(t, engine.Create{Spec: sandbox.Spec{Env: env[:3]}})
	_, err = s.CreateContext(within(t), engine.ContextRequest{Language: "python", Env: env[3:]})
	if sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a context: %v", err)
	}
	if _, err = s.CreateContext(within(t), engine.ContextRequest{Language: "python", Env: env[3:4]}); err != nil {
		t.Error(err)
	}
}
