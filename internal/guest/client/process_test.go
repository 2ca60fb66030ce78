package client_test

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// limit ends a test that hangs; no result depends on it.
func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	t.Cleanup(cancel)
	return ctx
}

var ids atomic.Int64

// newID is unique on this machine: the guest searches all of /proc, where other runs of these tests have theirs.
func newID() string { return "e" + itoa(os.Getpid()) + "." + strconv.FormatInt(ids.Add(1), 10) }

func shell(script string) guest.Start {
	return guest.Start{ID: newID(), Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

// result is the whole outcome of one execution.
type result struct {
	stdout, stderr bytes.Buffer
	exited         guest.Exited
}

func collect(t testing.TB, p *client.Process) *result {
	t.Helper()
	var r result
	var err error
	r.exited, err = p.Stream(limit(t), func(o guest.Output) error {
		if o.Stream == sandbox.Stderr {
			r.stderr.Write(o.Data)
		} else {
			r.stdout.Write(o.Data)
		}
		return nil
	}, true)
	if err != nil {
		t.Fatalf("stream of %s: %v", p.ID(), err)
	}
	return &r
}

func start(t testing.TB, c *client.Client, m guest.Start) *client.Process {
	t.Helper()
	p, err := c.Start(limit(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t testing.TB, c *client.Client, m guest.Start) *result {
	t.Helper()
	return collect(t, start(t, c, m))
}

func TestEndsOfProcesses(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	for _, test := range []struct {
		script       string
		code, signal int32
	}{
		{"exit 0", 0, 0},
		{"exit 1", 1, 0},
		{"exit 3", 3, 0},
		{"exit 127", 127, 0},
		{"exit 128", 128, 0},
		{"exit 137", 137, 0}, // looks like a kill, and is none
		{"exit 255", 255, 0},
		{"kill -9 $$", -1, 9},
		{"kill -15 $$", -1, 15},
		{"kill -11 $$", -1, 11},
		{"kill -13 $$", -1, 13}, // SIGPIPE is not ignored
		{"kill -2 $$", -1, 2},
		{"(exit 4); exit $?", 4, 0},
		{"kill -34 $$", -1, 34},
	} {
		m := shell(test.script)
		e := run(t, c, m).exited
		if e.Code != test.code || e.Signal != test.signal || e.ID != m.ID || e.TimedOut || e.Signaled || e.Incomplete {
			t.Errorf("%s: %+v", test.script, e)
		}
		foreign := uint32(0)
		if test.signal == 9 {
			foreign = 1
		}
		if e.ForeignKill != foreign {
			t.Errorf("%s: %d foreign kills", test.script, e.ForeignKill)
		}
	}
	e := run(t, c, guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-c",
		"import os; os._exit(256+3)"}}).exited
	if e.Code != 3 {
		t.Errorf("exit 256+3: %+v", e)
	}
}

func TestOutput(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	r := run(t, c, shell("echo out; echo err >&2; printf '\\000\\377'"))
	if r.stdout.String() != "out\n\x00\xff" || r.stderr.String() != "err\n" || r.exited.Stdout != 6 ||
		r.exited.Stderr != 4 {
		t.Errorf("%q %q %+v", r.stdout.String(), r.stderr.String(), r.exited)
	}
}
