package client_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// gone reports whether no process has this pid.
func gone(pid string) bool {
	b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

// expires runs an execution until its deadline and returns stdout after "ready". On a busy machine one may end before
// it is ready; then the next gets more time.
func expires(t testing.TB, c *client.Client, m guest.Start) (guest.Exited, string) {
	t.Helper()
	for m.Deadline = 100 * time.Millisecond; m.Deadline < hangTimeout; m.Deadline *= 2 {
		m.ID = newID()
		r := run(t, c, m)
		if r.exited.Wall < m.Deadline {
			t.Errorf("%q ended before its deadline: %+v", m.Argv, r.exited)
		}
		if rest, ready := strings.CutPrefix(r.stdout.String(), "ready\n"); ready {
			return r.exited, rest
		}
	}
	t.Fatalf("%q is never ready", m.Argv)
	return guest.Exited{}, ""
}

func TestDeadline(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	for _, test := range []struct {
		name, script string
		kill         syscall.Signal
		grace        time.Duration
		code, signal int32
		stdout       string
	}{
		{"kill", "echo ready; sleep 100", 0, 0, -1, 9, ""},
		{"term", "echo ready; sleep 100", syscall.SIGTERM, time.Minute, -1, 15, ""},
		{"a program that tidies up", `trap 'echo bye; exit 7' TERM; sleep 100 & echo ready; wait`, syscall.SIGTERM,
			time.Minute, 7, 0, "bye\n"},
		{"a program that ignores it", `trap '' TERM; echo ready; while :; do sleep 0.01; done`, syscall.SIGTERM,
			50 * time.Millisecond, -1, 9, ""},
	} {
		m := shell(test.script)
		m.KillSignal, m.Grace, m.KillTree = int32(test.kill), test.grace, true
		e, stdout := expires(t, c, m)
		if !e.TimedOut || e.Code != test.code || e.Signal != test.signal || e.Signaled || e.ForeignKill != 0 ||
			e.Incomplete || stdout != test.stdout {
			t.Errorf("%s: %+v %q", test.name, e, stdout)
		}
	}
	m := shell("exit 0")
	m.Deadline = time.Minute
	if e := run(t, c, m).exited; e.TimedOut {
		t.Errorf("before the deadline: %+v", e)
	}
}

// The deadline ends all processes of the execution, in any session.
func TestDeadlineReachesEveryProcess(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	e, pid := expires(t, c, shell(`setsid sh -c 'printf "ready\n$$\n"; exec sleep 100' & sleep 100`))
	if !e.TimedOut || e.Incomplete || !gone(pid) {
		t.Errorf("%+v %q", e, pid)
	}
	// One that ignores the signal, and which no parent, session or variable leads to once its parent has ended.
	m := shell(`env -i setsid sh -c 'trap "" TERM; printf "ready\n$$\n"; while :; do sleep 0.01; done' & sleep 100`)
	m.KillSignal, m.Grace = int32(syscall.SIGTERM), 50*time.Millisecond
	if e, pid := expires(t, c, m); !e.TimedOut || e.Incomplete || !gone(pid) {
		t.Errorf("after a grace: %+v %q", e, pid)
	}
}

// A descendant that keeps the output open delays the end by Drain at most.
func TestOrphanHoldsTheOutput(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("sleep 100 & echo $!")
	m.Drain = 50 * time.Millisecond
	r := run(t, c, m)
	if !r.exited.Incomplete || r.exited.Code != 0 || gone(r.stdout.String()) {
		t.Errorf("%+v %q", r.exited, r.stdout.String())
	}
	if err := c.Signal(limit(t), guest.Signal{ID: m.ID, Signal: 9, Scope: guest.ScopeExecution}); err != nil {
		t.Error(err)
	}
	await(t, func() bool { return gone(r.stdout.String()) })
	if err := c.Signal(limit(t), guest.Signal{ID: m.ID, Signal: 9,
		Scope: guest.ScopeExecution}); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("to nobody: %v", err)
	}
}

// Output written before Drain is over is kept even if there was no room for it then.
func TestDrainLosesNothing(t *testing.T) {
	c := startGuest(t, 0).Client(t)
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

// Output is kept until its writers are dead, however short Drain is.
func TestKillTree(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	for name, script := range map[string]string{
		"child":                   `sleep 100 & echo $!`,
		"own session":             `setsid sh -c 'echo >&3; exec sleep 100' & read x <&3; echo $!`,
		"double fork":             `(setsid sh -c 'echo $$; echo >&3; exec sleep 100' &) ; read x <&3`,
		"double fork, no environ": `(setsid sh -c 'echo $$; echo >&3; sleep 100' & env -i sh -c 'echo >&3; exec sleep 100' &); read x <&3; read x <&3`,
		"ignores all":             `sh -c 'trap "" TERM INT HUP; echo $$; echo >&3; while :; do sleep 1; done' & read x <&3`,
		"stopped":                 `sh -c 'echo $$; kill -STOP $$' & until grep -q ') T ' /proc/$!/stat; do sleep 0.01; done`,
		"many":                    `for i in $(seq 50); do setsid sleep 100 & done; echo $!`,
	} {
		m := shell("mkfifo up; exec 3<>up; " + script)
		m.Dir, m.KillTree, m.Drain = t.TempDir(), true, time.Nanosecond
		r := run(t, c, m)
		if r.exited.Incomplete || r.exited.Code != 0 || r.exited.ForeignKill != 0 || !gone(r.stdout.String()) {
			t.Errorf("%s: %+v %q %q", name, r.exited, r.stdout.String(), r.stderr.String())
		}
	}
}

func TestSignals(t *testing.T) {
	c := startGuest(t, 0).Client(t)
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
				return p.Signal(ctx, int32(syscall.SIGKILL), scope)
			}
			return nil
		}, true)
		if err != nil || e.Signal != 9 || !e.Signaled || e.ForeignKill != 0 {
			t.Errorf("scope %d: %+v %v", scope, e, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(seen)), " "); got != want {
			t.Errorf("scope %d: %s", scope, got)
		}
	}
	m := shell("exit 0")
	run(t, c, m)
	for _, scope := range []guest.SignalScope{guest.ScopeProcess, guest.ScopeGroup, guest.ScopeExecution} {
		if err := c.Signal(ctx, guest.Signal{ID: m.ID, Signal: 15,
			Scope: scope}); sandbox.KindOf(err) != sandbox.NotFound {
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

// An orphan's death by SIGKILL from elsewhere is noticed: the kernel may have caused it.
func TestForeignKillOfAnOrphan(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	// until it is reaped
	r := run(t, c, shell(`pid=$( (sh -c 'echo $$; kill -9 $$' &) ); while [ -e /proc/$pid ]; do sleep 0.01; done`))
	if r.exited.Code != 0 || r.exited.ForeignKill != 1 {
		t.Errorf("%+v", r.exited)
	}
}

func TestKillAll(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	var started []guest.Start
	for range 5 {
		m := shell(`setsid sleep 100 & echo ready; sleep 100`)
		p := start(t, c, m)
		p.Close()
		started = append(started, m)
	}
	await(t, func() bool {
		list, err := c.List(limit(t))
		return err == nil && !slices.ContainsFunc(list, func(p guest.ProcessInfo) bool { return p.Stdout == 0 })
	})
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
	c := startGuest(t, 0).Client(t)
	m := guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-c",
		"import time\nx = b'x' * (64 << 20)\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"}}
	e := run(t, c, m).exited
	if e.CPU < 200*time.Millisecond || e.Wall < 200*time.Millisecond || e.MaxRSS < 64<<20 || e.MaxRSS > 1<<30 {
		t.Errorf("%+v", e)
	}
}

// inGuest counts the entries of a folder of the guest's /proc.
func inGuest(t *testing.T, g *guestProcess, name string) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(g.PID), name))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestManyProcessesLeaveNothing(t *testing.T) {
	many := 1000
	if testing.Short() {
		many = 100
	}
	g := startGuest(t, 0)
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
	batch(20)
	fds, threads := inGuest(t, g, "fd"), inGuest(t, g, "task")
	batch(many)
	await(t, func() bool { return inGuest(t, g, "fd") <= fds })
	if n := inGuest(t, g, "task"); n > threads+many/2 { // a busy machine has it make some more, but not one for each
		t.Errorf("%d threads, before %d", n, threads)
	}
	await(t, func() bool { // what they left to the guest may have ended just now
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", g.PID, g.PID))
		return err != nil || len(b) == 0
	})
	if list, err := c.List(limit(t)); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
