package client_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// foundling is an orphan that the guest inherits: its parent exited. It waits for a line before it goes on.
type foundling struct {
	pid                   int32
	stdin, stdout, stderr *os.File
	dir                   string
}

func newFoundling(t *testing.T, c *client.Client, script string) *foundling {
	t.Helper()
	f := &foundling{dir: t.TempDir()}
	names := []string{"in", "out", "err"}
	for _, n := range names {
		if err := syscall.Mkfifo(filepath.Join(f.dir, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan *os.File, 3)
	go func() { // each open waits for the other side
		for i, flag := range []int{os.O_WRONLY, os.O_RDONLY, os.O_RDONLY} {
			file, err := os.OpenFile(filepath.Join(f.dir, names[i]), flag, 0)
			if err != nil {
				t.Error(err)
			}
			opened <- file
		}
	}()
	m := shell("cd " + f.dir + ` && sh -c 'echo $$ >pid; read go; ` + script + `' <in >out 2>err & exit 0`)
	m.Drain = time.Millisecond
	run(t, c, m)
	f.stdin, f.stdout, f.stderr = <-opened, <-opened, <-opened
	await(t, func() bool {
		b, err := os.ReadFile(filepath.Join(f.dir, "pid"))
		pid, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		f.pid = int32(pid)
		return err == nil && bad == nil
	})
	return f
}

func (f *foundling) close() {
	f.stdin.Close()
	f.stdout.Close()
	f.stderr.Close()
}

func TestAdopt(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	f := newFoundling(t, c, "echo out; echo err >&2; read more; echo $more; exit 6")
	m := guest.Adopt{ID: newID(), PID: f.pid, Argv: []string{"foundling"}}
	started, err := client.Adopt(limit(t), g.Dial(t), guestKey, m, client.Files{f.stdin, f.stdout, f.stderr})
	f.close()
	if err != nil || started.PID != f.pid {
		t.Fatal(started, err)
	}
	again := newFoundling(t, c, "")
	defer again.close()
	for name, bad := range map[string]struct {
		m    guest.Adopt
		kind sandbox.Kind
	}{
		"twice":            {guest.Adopt{ID: newID(), PID: f.pid}, sandbox.NotFound},
		"id taken":         {guest.Adopt{ID: m.ID, PID: again.pid}, sandbox.Exists},
		"not a child":      {guest.Adopt{ID: newID(), PID: int32(os.Getpid())}, sandbox.NotFound},
		"no process":       {guest.Adopt{ID: newID(), PID: 1 << 30}, sandbox.NotFound},
		"no id":            {guest.Adopt{PID: again.pid}, sandbox.Invalid},
		"the guest itself": {guest.Adopt{ID: newID(), PID: int32(g.PID)}, sandbox.NotFound},
	} {
		_, err := client.Adopt(limit(t), g.Dial(t), guestKey, bad.m, client.Files{again.stdin, again.stdout,
			again.stderr})
		if sandbox.KindOf(err) != bad.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.Adopt(limit(t), g.Dial(t), [32]byte{9}, m, client.Files{again.stdin, again.stdout,
		again.stderr}); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("a wrong key: %v", err)
	}

	p, err := c.Attach(limit(t), guest.Attach{ID: m.ID})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Input(limit(t), []byte("go\nmore\n")); err != nil {
		t.Fatal(err)
	}
	r := collect(t, p)
	if r.exited.Code != 6 || r.stdout.String() != "out\nmore\n" || r.stderr.String() != "err\n" || r.exited.Incomplete {
		t.Errorf("%+v %q %q", r.exited, r.stdout.String(), r.stderr.String())
	}
}

func TestDeadlineOfAnAdopted(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	f := newFoundling(t, c, "sleep 100 & wait")
	m := guest.Adopt{ID: newID(), PID: f.pid, Deadline: 200 * time.Millisecond, KillTree: true}
	if _, err := client.Adopt(limit(t), g.Dial(t), guestKey, m, client.Files{f.stdin, f.stdout,
		f.stderr}); err != nil {
		t.Fatal(err)
	}
	f.stdin.WriteString("go\n")
	f.close()
	e, err := c.Wait(limit(t), m.ID)
	if err != nil || !e.TimedOut || e.Signal != 9 || e.Incomplete {
		t.Errorf("%+v, %v", e, err)
	}
}
