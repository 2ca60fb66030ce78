package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
)

// waiter reports that it waits, and then waits for a program. A test may put other code before it.
const waiter = `
import os
os.write(3, b"!")
` + waiting

// waiting reads a program and shows it.
const waiting = `
import os, time
def read(n):
    data = b""
    while len(data) < n: data += os.read(3, n - len(data)) or os._exit(9)
    return data
lengths = [int.from_bytes(read(4), "little") for _ in range(2)]
args, env = (read(n).decode().split("\0")[:-1] for n in lengths)
print(os.getpid(), args, env[0].startswith("FUMEHOOD_EXECUTION="), env[1:], flush=True)
if args == ["sleep"]: time.sleep(100)
`

func parkWaiter(t *testing.T, c *client.Client, before string) []string {
	t.Helper()
	argv := []string{"/usr/bin/python3", "-I", "-S", "-c", before + waiter}
	if err := c.Park(limit(t), guest.Park{Argv: argv, User: stranger}); err != nil {
		t.Fatal(err)
	}
	return argv
}

// processes lists the processes of the sandbox except the guest and the shell that counts them.
func processes(t *testing.T, c *client.Client) int {
	t.Helper()
	r := run(t, c, shell(`echo /proc/[0-9]*`))
	return len(strings.Fields(r.stdout.String())) - 2
}

// A parked interpreter runs the program of the Start that fits, with its arguments and its environment.
func TestPark(t *testing.T) {
	c := startInit(t).Client(t)
	m := guest.Start{ID: newID(), Argv: append(parkWaiter(t, c, ""), "a", "", "b c"), Env: []string{"X=1", "Y="},
		User: stranger, Parked: true}
	r := run(t, c, m)
	if got, want := r.stdout.String(), "['a', '', 'b c'] True ['X=1', 'Y=']\n"; !strings.HasSuffix(got, want) ||
		r.exited.Code != 0 {
		t.Errorf("%q, %+v", got, r.exited)
	}
}

// Any other Start ends it first, and what it has started.
func TestParkedMeetsNoOther(t *testing.T) {
	for name, change := range map[string]func(*guest.Start){
		"not wanted":        func(m *guest.Start) { m.Parked = false },
		"another program":   func(m *guest.Start) { m.Argv[0] = "/usr/bin/../bin/python3" },
		"fewer arguments":   func(m *guest.Start) { m.Argv = []string{"/bin/true"} },
		"another folder":    func(m *guest.Start) { m.Dir = "/tmp" },
		"another user":      func(m *guest.Start) { m.User.UID++ },
		"stdin":             func(m *guest.Start) { m.Stdin = guest.StdinPipe },
		"a terminal":        func(m *guest.Start) { m.TTY = true },
		"a limit":           func(m *guest.Start) { m.Limits = []guest.Rlimit{{Resource: 7, Value: 100}} },
		"descriptor 3 to 5": func(m *guest.Start) { m.Channel = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := startInit(t).Client(t)
			parkWaiter(t, c, "import os\nos.fork() or __import__('time').sleep(1000)\n")
			m := guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", "pass"}, User: stranger,
				Parked: true}
			change(&m)
			p, err := c.Start(limit(t), m)
			if err != nil || p.Parked() {
				t.Fatal(err)
			}
			if _, err := p.Stream(limit(t), func(guest.Output) error { return nil }, true); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return processes(t, c) == 0 })
		})
	}
}

// An interpreter that never waits, or has ended, leaves the next Start to a new process.
func TestParkFails(t *testing.T) {
	c := startInit(t).Client(t)
	for _, argv := range [][]string{{"/usr/bin/python3", "-c", "pass"}, {"/missing"}} {
		if err := c.Park(limit(t), guest.Park{Argv: argv}); err == nil {
			t.Errorf("%q waits", argv)
		}
	}
	if err := c.Park(limit(t), guest.Park{Argv: []string{"/missing"}}); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	parkWaiter(t, c, "import os\nif os.fork(): os._exit(0)\n") // the one that waits is not the one that was started
	m := guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", "print('new')"}, User: stranger,
		Parked: true}
	if r := run(t, c, m); r.stdout.String() != "new\n" {
		t.Errorf("%q, %+v", r.stdout.String(), r.exited)
	}
}

// A parked interpreter and its descendants do not run until their program comes.
func TestParkedStops(t *testing.T) {
	g := startInit(t)
	c := g.Client(t)
	argv := parkWaiter(t, c, `
import os
if os.fork() == 0:
    while True: pass
`)
	await(t, func() bool { return statesBeside(t, g.PID) == "TT" })
	run(t, c, guest.Start{ID: newID(), Argv: argv, User: stranger, Parked: true, KillTree: true})
	if n := processes(t, c); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// A parked interpreter that cannot be waited for, as another process traces it, holds up no other program. A sandbox's
// filter refuses ptrace(2); a process that gets the pid of an interpreter that has ended has the same effect.
func TestParkedTraced(t *testing.T) {
	c := startInit(t).Client(t)
	m := guest.Start{ID: newID(), Argv: []string{"/bin/sleep", "1000"}, User: stranger}
	if _, err := c.Start(limit(t), m); err != nil { // or the guest would kill all other processes, also the tracer
		t.Fatal(err)
	}
	parkWaiter(t, c, `
import os, ctypes, time
libc = ctypes.CDLL(None)
libc.prctl(0x59616d61, ctypes.c_ulong(2**64 - 1), 0, 0, 0) # PR_SET_PTRACER, to any
r, w = os.pipe()
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    os.write(w, b"%d" % libc.ptrace(0x4206, parent, 0, 0)) # PTRACE_SEIZE
    time.sleep(1000)
if os.read(r, 9) != b"0": os._exit(1)
`)
	if r := run(t, c, shell("echo on")); r.stdout.String() != "on\n" {
		t.Errorf("%q, %+v", r.stdout.String(), r.exited)
	}
	if err := c.KillAll(limit(t)); err != nil {
		t.Error(err)
	}
}

// statesBeside returns the states of the processes in the pid namespace of a process, without its own.
func statesBeside(t *testing.T, pid int) (states string) {
	t.Helper()
	inside := func(folder string) string {
		space, _ := os.Readlink(folder + "/ns/pid")
		return space
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	own := "/proc/" + strconv.Itoa(pid)
	for _, folder := range folders {
		if folder == own || inside(folder) != inside(own) {
			continue
		}
		text, _ := os.ReadFile(folder + "/stat")
		_, after, _ := strings.Cut(string(text), ") ")
		states += after[:min(1, len(after))]
	}
	return states
}
