package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guesttest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// gone says whether no process with this pid runs.
func gone(pid string) bool {
	b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestDeadline(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	for _, test := range []struct {
		name, script string
		kill         syscall.Signal
		grace        time.Duration
		code, signal int32
		stdout       string
	}{
		{"kill", "sleep 100", 0, 0, -1, 9, ""},
		{"term", "sleep 100", syscall.SIGTERM, time.Minute, -1, 15, ""},
		{"a program that tidies up", `trap 'echo bye; exit 7' TERM; sleep 100 & wait`, syscall.SIGTERM, time.Minute, 7, 0, "bye\n"},
		{"a program that ignores it", `trap '' TERM; while :; do sleep 0.01; done`, syscall.SIGTERM, 50 * time.Millisecond, -1, 9, ""},
	} {
		m := shell(test.script)
		m.Deadline, m.KillSignal, m.Grace, m.KillTree = 100*time.Millisecond, int32(test.kill), test.grace, true
		r := run(t, c, m)
		e := r.exited
		if !e.TimedOut || e.Code != test.code || e.Signal != test.signal || e.Signaled || e.ForeignKill != 0 || e.Incomplete ||
			r.stdout.String() != test.stdout || e.Wall < m.Deadline {
			t.Errorf("%s: %+v %q", test.name, e, r.stdout.String())
		}
	}
	m := shell("exit 0")
	m.Deadline = time.Minute
	if e := run(t, c, m).exited; e.TimedOut {
		t.Errorf("before the deadline: %+v", e)
	}
}

// The deadline ends all processes of the execution, in whatever session they are.
func TestDeadlineReachesEveryProcess(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	m := shell(`setsid sh -c 'echo $$; exec sleep 100' & sleep 100`)
	m.Deadline = 300 * time.Millisecond
	r := run(t, c, m)
	if !r.exited.TimedOut || r.exited.Incomplete || !gone(r.stdout.String()) {
		t.Errorf("%+v %q", r.exited, r.stdout.String())
	}
}

// A descendant that keeps the output open delays the end by Drain, no longer.
func TestOrphanHoldsTheOutput(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	m := shell("sleep 100 & echo $!")
	m.Drain = 50 * time.Millisecond
	r := run(t, c, m)
	if !r.exited.Incomplete || r.exited.Code != 0 || r.exited.Wall > 10*time.Second || gone(r.stdout.String()) {
		t.Errorf("%+v %q", r.exited, r.stdout.String())
	}
	if err := c.Signal(limit(t), guest.Signal{ID: m.ID, Signal: 9, Scope: guest.ScopeExecution}); err != nil {
		t.Error(err)
	}
	await(t, func() bool { return gone(r.stdout.String()) })
	if err := c.Signal(limit(t), guest.Signal{ID: m.ID, Signal: 9, Scope: guest.ScopeExecution}); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("to nobody: %v", err)
	}
}

// What was written before Drain is over is kept even where there was no room for it then.
func TestDrainLosesNothing(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	m := shell("sleep 100 & seq 1 20000")
	m.Drain, m.Buffer = time.Millisecond, 4096
	p := start(t, c, m)
	await(t, func() bool {
		list, err := c.List(limit(t))
		return err == nil && list[0].Stdout == 4096
	})
	time.Sleep(50 * time.Millisecond) // Drain is over long before the reader comes
	if r := collect(t, p); r.stdout.String() != string(numbers(20_000)) || !r.exited.Incomplete {
		t.Errorf("%d bytes, %+v", r.stdout.Len(), r.exited)
	}
	if err := c.KillAll(limit(t)); err != nil {
		t.Fatal(err)
	}
}

func TestKillTree(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	for name, script := range map[string]string{
		"child":                   `sleep 100 & echo $!`,
		"own session":             `setsid sleep 100 & sleep 0.1; echo $!`,
		"double fork":             `(setsid sh -c 'echo $$; exec sleep 100' &) ; sleep 0.2`,
		"double fork, no environ": `(setsid sh -c 'echo $$; sleep 100' & env -i sleep 100 &); sleep 0.2`,
		"ignores all":             `sh -c 'trap "" TERM INT HUP; echo $$; while :; do sleep 1; done' & sleep 0.2`,
		"stopped":                 `sh -c 'echo $$; kill -STOP $$' & sleep 0.2`,
		"many":                    `for i in $(seq 50); do setsid sleep 100 & done; echo $!`,
	} {
		m := shell(script)
		m.KillTree, m.Drain = true, 20*time.Second
		r := run(t, c, m)
		if r.exited.Incomplete || r.exited.Code != 0 || r.exited.ForeignKill != 0 || !gone(r.stdout.String()) {
			t.Errorf("%s: %+v %q %q", name, r.exited, r.stdout.String(), r.stderr.String())
		}
	}
}

func TestSignals(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	ctx := limit(t)
	const script = `trap 'echo got' USR1; (trap 'echo child' USR1; echo; while :; do sleep 0.01; done) & echo; while :; do sleep 0.01; done`
	for scope, want := range map[guest.SignalScope]string{
		guest.ScopeProcess:   "got",
		guest.ScopeGroup:     "child got",
		guest.ScopeExecution: "child got",
	} {
		m := shell(script)
		m.KillTree = true
		p := start(t, c, m)
		lines, signaled := 0, false
		seen := map[string]bool{}
		e, err := p.Stream(ctx, func(o guest.Output) error {
			lines += strings.Count(string(o.Data), "\n")
			if o.Stream == sandbox.Stderr {
				return nil // the shell tells of its sleep, which the signal met too
			}
			for _, w := range strings.Fields(string(o.Data)) {
				seen[w] = true
			}
			if lines >= 2 && !signaled {
				signaled = true
				if err := p.Signal(ctx, int32(syscall.SIGUSR1), scope); err != nil {
					return err
				}
			}
			if len(seen) == len(strings.Fields(want)) {
				time.Sleep(20 * time.Millisecond)
				return p.Signal(ctx, int32(syscall.SIGKILL), scope)
			}
			return nil
		}, true)
		if err != nil || e.Signal != 9 || !e.Signaled || e.ForeignKill != 0 {
			t.Errorf("scope %d: %+v %v", scope, e, err)
		}
		for _, w := range strings.Fields(want) {
			if !seen[w] {
				t.Errorf("scope %d: %v", scope, seen)
			}
		}
	}
	m := shell("exit 0")
	run(t, c, m)
	for _, scope := range []guest.SignalScope{guest.ScopeProcess, guest.ScopeGroup, guest.ScopeExecution} {
		if err := c.Signal(ctx, guest.Signal{ID: m.ID, Signal: 15, Scope: scope}); sandbox.KindOf(err) != sandbox.NotFound {
			t.Errorf("to one that is gone: %v", err)
		}
	}
	if err := c.Signal(ctx, guest.Signal{ID: "nobody", Signal: 15}); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("to an unknown one: %v", err)
	}
	if err := c.Signal(ctx, guest.Signal{ID: m.ID, Signal: 99}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("signal 99: %v", err)
	}
}

// An orphan that dies of SIGKILL from elsewhere is seen, as it may be the work of the kernel.
func TestForeignKillOfAnOrphan(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	r := run(t, c, shell(`(sh -c 'kill -9 $$' &); sleep 0.2; echo x`))
	if r.exited.Code != 0 || r.exited.ForeignKill != 1 {
		t.Errorf("%+v", r.exited)
	}
}

func TestKillAll(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	var started []guest.Start
	for range 5 {
		m := shell(`setsid sleep 100 & echo ready; sleep 100`)
		p := start(t, c, m)
		p.Close()
		started = append(started, m)
	}
	time.Sleep(50 * time.Millisecond)
	if err := c.KillAll(limit(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range started {
		e, err := c.Wait(limit(t), m.ID)
		if err != nil || e.Signal != 9 || !e.Signaled || e.ForeignKill != 0 || e.Incomplete {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

func TestUsage(t *testing.T) {
	c := guesttest.Start(t, 0).Client(t)
	m := guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-c",
		"import time\nx = b'x' * (64 << 20)\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"}}
	e := run(t, c, m).exited
	if e.CPU < 200*time.Millisecond || e.Wall < 200*time.Millisecond || e.MaxRSS < 64<<20 || e.MaxRSS > 1<<30 {
		t.Errorf("%+v", e)
	}
}

// inGuest counts the entries of a folder of the guest's /proc.
func inGuest(t *testing.T, g *guesttest.Guest, name string) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(g.PID), name))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestManyProcessesLeaveNothing(t *testing.T) {
	g := guesttest.Start(t, 0)
	c := g.Client(t)
	batch := func(n int) {
		for range n / 10 {
			var ps [10]string
			for i := range ps {
				m := shell("(true &); echo x; exit 3")
				p := start(t, c, m)
				ps[i] = m.ID
				defer p.Close()
				if i%2 == 0 {
					collect(t, p)
				}
			}
			for _, id := range ps {
				if e, err := c.Wait(limit(t), id); err != nil || e.Code != 3 {
					t.Fatalf("%+v, %v", e, err)
				}
				if err := c.Ack(limit(t), guest.Ack{ID: id, Exit: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	batch(100)
	fds, threads := inGuest(t, g, "fd"), inGuest(t, g, "task")
	batch(1000)
	await(t, func() bool { return inGuest(t, g, "fd") <= fds })
	if n := inGuest(t, g, "task"); n > threads+8 {
		t.Errorf("%d threads, before %d", n, threads)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", g.PID, g.PID)); err == nil && len(b) > 0 {
		t.Errorf("children are left: %s", b)
	}
	if list, err := c.List(limit(t)); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
