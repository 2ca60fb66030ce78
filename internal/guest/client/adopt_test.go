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

// foundling is an orphan that the guest inherits: its parent exited. It waits for its program.
type foundling struct {
	argv                    []string
	pid                     int32
	channel, stdout, stderr *os.File
}

func newFoundling(t *testing.T, c *client.Client) *foundling {
	t.Helper()
	dir := t.TempDir()
	names := []string{"in", "out", "err"}
	for _, n := range names {
		if err := syscall.Mkfifo(filepath.Join(dir, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan *os.File, 3)
	go func() { // each open waits for the other side
		for i, flag := range []int{os.O_WRONLY, os.O_RDONLY, os.O_RDONLY} {
			file, err := os.OpenFile(filepath.Join(dir, names[i]), flag, 0)
			if err != nil {
				t.Error(err)
			}
			opened <- file
		}
	}()
	f := &foundling{argv: []string{"/usr/bin/python3", "-I", "-S", "-c", waiting}}
	m := shell("cd " + dir + ` && sh -c 'echo $$ >pid; exec python3 -I -S -c "$0"' "$WAITER" 3<in >out 2>err & exit 0`)
	m.Env = append(m.Env, "WAITER="+waiting)
	m.Drain = time.Millisecond
	run(t, c, m)
	f.channel, f.stdout, f.stderr = <-opened, <-opened, <-opened
	await(t, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		f.pid = int32(pid)
		return err == nil && bad == nil
	})
	return f
}

func (f *foundling) files() client.Files { return client.Files{f.channel, f.stdout, f.stderr} }

func (f *foundling) close() {
	f.channel.Close()
	f.stdout.Close()
	f.stderr.Close()
}

// An adopted interpreter is parked: the next Start that fits gives it its program, and the limits of an execution.
func TestAdopt(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	f := newFoundling(t, c)
	m := guest.Adopt{PID: f.pid, Argv: f.argv}
	if err := client.Adopt(limit(t), g.Dial(t), guestKey, m, f.files()); err != nil {
		t.Fatal(err)
	}
	f.close()
	r := run(t, c, guest.Start{ID: newID(), Argv: append(f.argv, "a b"), Env: []string{"X=1"}, Parked: true})
	if got, want := r.stdout.String(), strconv.Itoa(int(f.pid))+" ['a b'] True ['X=1']\n"; got != want ||
		r.exited.Code != 0 || r.exited.Incomplete {
		t.Errorf("%q, not %q; %+v, %q", got, want, r.exited, r.stderr.String())
	}
}

func TestAdoptRefuses(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	f := newFoundling(t, c)
	defer f.close()
	for name, bad := range map[string]struct {
		m    guest.Adopt
		kind sandbox.Kind
	}{
		"not a child":      {guest.Adopt{PID: int32(os.Getpid()), Argv: f.argv}, sandbox.NotFound},
		"no process":       {guest.Adopt{PID: 1 << 30, Argv: f.argv}, sandbox.NotFound},
		"no command line":  {guest.Adopt{PID: f.pid}, sandbox.Invalid},
		"the guest itself": {guest.Adopt{PID: int32(g.PID), Argv: f.argv}, sandbox.NotFound},
	} {
		if err := client.Adopt(limit(t), g.Dial(t), guestKey, bad.m, f.files()); sandbox.KindOf(err) != bad.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := guest.Adopt{PID: f.pid, Argv: f.argv}
	if err := client.Adopt(limit(t), g.Dial(t), [32]byte{9}, m, f.files()); sandbox.KindOf(err) !=
		sandbox.Unavailable {
		t.Errorf("a wrong key: %v", err)
	}
	p, err := c.Start(limit(t), guest.Start{ID: newID(), Argv: []string{"/bin/sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	m.PID = p.PID()
	if err := client.Adopt(limit(t), g.Dial(t), guestKey, m, f.files()); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("the process of an execution: %v", err)
	}
}

func TestDeadlineOfAnAdopted(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	f := newFoundling(t, c)
	if err := client.Adopt(limit(t), g.Dial(t), guestKey, guest.Adopt{PID: f.pid, Argv: f.argv},
		f.files()); err != nil {
		t.Fatal(err)
	}
	f.close()
	r := run(t, c, guest.Start{ID: newID(), Argv: append(f.argv, "sleep"), Parked: true,
		Deadline: 200 * time.Millisecond, KillTree: true})
	if e := r.exited; !e.TimedOut || e.Signal != 9 || e.Incomplete {
		t.Errorf("%+v", e)
	}
}
