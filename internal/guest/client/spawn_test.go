package client_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// A process starts with what Start specifies, and with nothing of the guest's.
func TestWhatAProcessInherits(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	for _, test := range []struct{ name, script, want string }{
		{"descriptors", `ls /proc/$$/fd`, "0\n1\n2\n"},
		{"null stdin", `readlink /proc/$$/fd/0`, "/dev/null\n"},
		{"blocking pipes", `grep flags /proc/$$/fdinfo/1`, "flags:\t01\n"},
		{"session leader", `cut -d' ' -f6 /proc/$$/stat | grep -qx $$ && echo yes`, "yes\n"},
		{"no terminal", `cut -d' ' -f7 /proc/$$/stat`, "0\n"},
		{"signals", `exec grep -E 'Sig(Blk|Ign)' /proc/self/status`,
			"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"},
		{"first to die of want of memory", `cat /proc/$$/oom_score_adj`, "1000\n"},
	} {
		if r := run(t, c, shell(test.script)); r.stdout.String() != test.want {
			t.Errorf("%s: %q, want %q (%s)", test.name, r.stdout.String(), test.want, r.stderr.String())
		}
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	its, err := os.ReadFile("/proc/" + itoa(g.PID) + "/oom_score_adj")
	if err != nil || string(its) != string(own) {
		t.Errorf("the guest's oom_score_adj is %q, %v", its, err)
	}
}

func TestEnvironmentAndDirectory(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := guest.Start{ID: newID(), Argv: []string{"env", "-0"}, Dir: "/usr",
		Env: []string{"PATH=/nowhere:relative::/usr/bin", "A=1", guest.EnvExecution + "=forged", "B=two words\n"}}
	r := run(t, c, m)
	want := guest.EnvExecution + "=" + m.ID + "\x00PATH=/nowhere:relative::/usr/bin\x00A=1\x00B=two words\n\x00"
	if r.stdout.String() != want {
		t.Errorf("%q", r.stdout.String())
	}
	m = guest.Start{ID: newID(), Argv: []string{"/bin/pwd", "-P"}, Dir: "/usr"}
	if r := run(t, c, m); r.stdout.String() != "/usr\n" {
		t.Errorf("%q", r.stdout.String())
	}
	m = guest.Start{ID: newID(), Argv: []string{"bin/sh", "-c", "echo $0"}, Dir: "/usr"} // relative to Dir
	if r := run(t, c, m); r.stdout.String() != "bin/sh\n" {
		t.Errorf("%q", r.stdout.String())
	}
}

func TestLimitsHoldFromTheFirstInstruction(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("ulimit -Sn; ulimit -Hn; ulimit -Sf")
	m.Limits = []guest.Rlimit{{Resource: unix.RLIMIT_NOFILE, Value: 77}, {Resource: unix.RLIMIT_FSIZE, Value: 1 << 20}}
	if r := run(t, c, m); r.stdout.String() != "77\n77\n2048\n" {
		t.Errorf("%q %q", r.stdout.String(), r.stderr.String())
	}
	m = shell("ulimit -Sn")
	m.Limits = []guest.Rlimit{{Resource: 99, Value: 1}}
	if _, err := c.Start(limit(t), m); sandbox.KindOf(err) != sandbox.Invalid ||
		!strings.Contains(err.Error(), "limits") {
		t.Errorf("an unknown limit: %v", err)
	}
}

func TestUserOfAProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	c := startGuest(t, 0).Client(t)
	m := shell("id -u; id -g; id -G; grep -E 'CapEff|CapPrm' /proc/self/status")
	m.User = sandbox.User{UID: 12345, GID: 54321}
	want := "12345\n54321\n54321\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
	if r := run(t, c, m); r.stdout.String() != want {
		t.Errorf("%q %q", r.stdout.String(), r.stderr.String())
	}
}

func TestStartsThatFail(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		m     guest.Start
		kind  sandbox.Kind
		errno syscall.Errno
		says  string
	}{
		{"no id", guest.Start{Argv: []string{"true"}}, sandbox.Invalid, 0, "id"},
		{"id with a slash", guest.Start{ID: "a/b", Argv: []string{"true"}}, sandbox.Invalid, 0, "id"},
		{"no program", guest.Start{ID: newID()}, sandbox.Invalid, 0, "program"},
		{"unknown program", guest.Start{ID: newID(), Argv: []string{"no-such-program"}}, sandbox.NotFound,
			syscall.ENOENT,
			"no-such-program"},
		{"empty path", guest.Start{ID: newID(), Argv: []string{"sh"}, Env: []string{"PATH="}}, sandbox.NotFound,
			syscall.ENOENT, "sh"},
		{"a folder", guest.Start{ID: newID(), Argv: []string{"/usr"}}, sandbox.Invalid, syscall.EACCES, "execute /usr"},
		{"no format", guest.Start{ID: newID(), Argv: []string{script}}, sandbox.Invalid, syscall.ENOEXEC, "#!"},
		{"no directory", guest.Start{ID: newID(), Argv: []string{"true"}, Dir: "/no/such"}, sandbox.NotFound,
			syscall.ENOENT,
			"/no/such"},
		{"relative directory", guest.Start{ID: newID(), Argv: []string{"true"}, Dir: "usr"}, sandbox.Invalid, 0,
			"absolute"},
		{"NUL in an argument", guest.Start{ID: newID(), Argv: []string{"true", "a\x00b"}}, sandbox.Invalid, 0, "NUL"},
		{"NUL in the program", guest.Start{ID: newID(), Argv: []string{"tr\x00ue"}}, sandbox.Invalid, 0, "NUL"},
		{"NUL in the environment", guest.Start{ID: newID(), Argv: []string{"true"}, Env: []string{"A=\x00"}},
			sandbox.Invalid,
			0, "NUL"},
		{"NUL in the directory", guest.Start{ID: newID(), Argv: []string{"true"}, Dir: "/\x00"}, sandbox.Invalid, 0,
			"NUL"},
		{"too long", guest.Start{ID: newID(), Argv: []string{"true", strings.Repeat("x", 200_000)}}, sandbox.TooLarge,
			syscall.E2BIG, ""},
		{"large buffer", guest.Start{ID: newID(), Argv: []string{"true"}, Buffer: guest.MaxBuffer + 1},
			sandbox.TooLarge, 0,
			""},
		{"signal 65", guest.Start{ID: newID(), Argv: []string{"true"}, KillSignal: 65}, sandbox.Invalid, 0, "signal"},
	} {
		_, err := c.Start(limit(t), test.m)
		var errno syscall.Errno
		errors.As(err, &errno)
		if sandbox.KindOf(err) != test.kind || errno != test.errno || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v (%v, %v)", test.name, err, sandbox.KindOf(err), errno)
		}
	}
	list, err := c.List(limit(t))
	if err != nil || len(list) != 0 {
		t.Errorf("records are left: %v, %v", list, err)
	}
}

func TestDuplicateStart(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("echo once; sleep 0.1")
	p := start(t, c, m)
	for range 3 {
		if _, err := c.Start(limit(t), m); sandbox.KindOf(err) != sandbox.Exists {
			t.Errorf("again: %v", err)
		}
	}
	collect(t, p)
	if _, err := c.Start(limit(t), m); sandbox.KindOf(err) != sandbox.Exists {
		t.Errorf("after the end: %v", err)
	}
	if err := c.Ack(limit(t), guest.Ack{ID: m.ID, Exit: true}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, c, m); r.stdout.String() != "once\n" {
		t.Errorf("after it was forgotten: %q", r.stdout.String())
	}
}
