package engine_test

import (
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
)

// TestRunsOfContextsOutliveLogs: the number of runs of a context is on record before its logs are removed.
func TestRunsOfContextsOutliveLogs(t *testing.T) {
	k, open := keeping(t)
	e := open(t.TempDir())
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		do(t, s, code("python", "1"))
	}
	for range eventlog.DefaultRetention.Logs - 3 {
		do(t, s, script("true"))
	}
	eventually(t, "the record", func() bool { return k.record(s.ID()).Contexts[0].Runs == 3 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestManyRunsBeforeKill: a context keeps its variables at restarts, however many of its runs have ended, and however
// much they have shown.
func TestManyRunsBeforeKill(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	e, s := openOne(t, open, stateDir)
	do(t, s, code("bash", "x=1"))
	for range 300 {
		do(t, s, code("bash", ":"))
	}
	do(t, s, code("python", "x = 1"))
	for range 4 { // the guest keeps 1 MiB of what they show
		for range 20 {
			do(t, s, code("python", "'v' * 100000"))
		}
		do(t, s, code("python", "'v' * 700000"))
		do(t, s, code("python", "large = 'v' * 700000"))
		if c, err := s.DefaultContext("python"); err != nil {
			t.Fatal(err)
		} else if _, err := c.Export(within(t), []string{"large"}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = open(stateDir)
		s = k.resumed(t, e, s.ID())
		for language, show := range map[string]string{"bash": "echo $x", "python": "print(x)"} {
			if r := do(t, s, code(language, show)); string(r.Stdout.Head) != "1\n" {
				t.Errorf("%s: %q", language, r.Stdout.Head)
			}
		}
	}
	if err := errors.Join(s.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}
