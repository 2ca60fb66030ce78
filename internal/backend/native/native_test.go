package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

var guestProgram *os.File

func TestMain(m *testing.M) {
	apart()
	var err error
	if guestProgram, err = backendtest.Guest(); err != nil {
		panic(err)
	}
	// a busy host is slow, and tests say when it is a fork that they expect
	forkTimeout, zygoteTimeout = stepTimeout, stepTimeout
	os.Exit(m.Run())
}

// apart moves root's tests into their own mount namespace: every mount on the host makes templates stale, and some
// tests mount. Within the tests mounts propagate as on a host, so a leaking sandbox is noticed. The program executes
// itself again, as only its first thread can take it there. If root may not do that, the tests run in place.
func apart() {
	const moved = "FUMEHOOD_TEST_APART"
	if os.Geteuid() != 0 || os.Getenv(moved) != "" {
		return
	}
	runtime.LockOSThread()
	if unix.Unshare(unix.CLONE_NEWNS) != nil {
		runtime.UnlockOSThread()
		return
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") // with nobody yet: no peer of the host's
	}
	if err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), moved+"=1"))
	}
	panic(err)
}

// open returns a backend with its own state.
func open(t testing.TB, failAt string) *Backend {
	t.Helper()
	b, err := New(Options{Guest: guestProgram, RunDir: filepath.Join(t.TempDir(), "run"), FailAt: failAt,
		GuestStderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func spec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env:             sandbox.DefaultEnv,
		AllowUnenforced: accepted()}
}

// accepted lists the limits that an ordinary user without a delegated control group must waive.
func accepted() []string {
	if os.Getenv("FUMEHOOD_TEST_WEAKER") == "" {
		return nil
	}
	return strings.Split(os.Getenv("FUMEHOOD_TEST_WEAKER"), ",")
}

type outcome struct {
	exited         guest.Exited
	stdout, stderr string
}

// run starts a command in the box and returns its output.
func run(t testing.TB, box sandbox.Box, argv ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := box.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(ctx, conn, box.GuestKey())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: argv, Env: sandbox.DefaultEnv,
		Dir:  sandbox.Workspace,
		User: sandbox.DefaultUser, KillTree: true})
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	o.exited, err = p.Stream(ctx, func(out guest.Output) error {
		if out.Stream == sandbox.Stderr {
			o.stderr += string(out.Data)
		} else {
			o.stdout += string(out.Data)
		}
		return nil
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func create(t testing.TB, b *Backend, s sandbox.Spec) sandbox.Box {
	t.Helper()
	box, err := b.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// leftovers lists what a failed or closed sandbox must not leave: guests, folders of boxes, control groups.
func leftovers(t testing.TB, b *Backend, id sandbox.ID) []string {
	t.Helper()
	var left []string
	for _, pid := range guestsOf(id, nil) {
		left = append(left, "process "+strconv.Itoa(pid))
	}
	boxes, _ := filepath.Glob(filepath.Join(b.options.RunDir, "instances", "*", "boxes", "*"))
	left = append(left, boxes...)
	if b.In != nil {
		for _, dir := range b.In.Tree.Dirs() {
			if _, err := os.Stat(filepath.Join(dir, string(id))); err == nil {
				left = append(left, filepath.Join(dir, string(id)))
			}
		}
	}
	return left
}

// TestEveryStepFails makes each creation step fail in turn. The code must never start, the error must name the step,
// and nothing may be left behind.
func TestEveryStepFails(t *testing.T) {
	steps := slices.Concat(HostSteps, confine.Steps, []string{confine.StepRoot + " proc",
		confine.StepRoot + " dev/null",
		confine.StepRoot + " workspace", confine.StepRoot + " etc/passwd", confine.StepRoot + " proc/kcore"})
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			if os.Geteuid() != 0 && step == hostbox.StepIDs {
				return // an ordinary user claims no ids
			}
			b := open(t, step)
			s := specFor(t, step)
			fds := openFiles(t)
			box, err := b.Create(context.Background(), s)
			if err == nil {
				box.Close()
				t.Fatal("the sandbox was made although the step failed")
			}
			name, _, _ := strings.Cut(step, " proc/")
			if !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name the step: %v", err)
			}
			if left := leftovers(t, b, s.ID); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			// Only the instance's lock, opened by the first creation, stays open.
			if n := openFiles(t); n > fds+1 {
				t.Errorf("%d descriptors before, %d after", fds, n)
			}
		})
	}
}

func openFiles(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestRun(t *testing.T) {
	b := open(t, "")
	box := create(t, b, spec())
	o := run(t, box, "/bin/sh", "-c", "id -u; pwd; echo oops >&2; exit 7")
	if o.stdout != "1000\n/workspace\n" || o.stderr != "oops\n" || o.exited.Code != 7 {
		t.Errorf("got %+v", o)
	}
}

// TestPosture reads the kernel's view of the code's own process.
func TestPosture(t *testing.T) {
	b := open(t, "")
	box := create(t, b, spec())
	status := run(t, box, "/bin/cat", "/proc/self/status").stdout
	want := map[string]string{
		"Uid": "1000 1000 1000 1000", "Gid": "1000 1000 1000 1000", "CapInh": "0000000000000000",
		"CapPrm": "0000000000000000",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
		"Seccomp": "2",
	}
	if os.Geteuid() == 0 {
		want["Groups"] = ""
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if w, ok := want[name]; ok && strings.Join(strings.Fields(value), " ") != w {
			t.Errorf("%s is %q, not %q", name, strings.TrimSpace(value), w)
		}
	}
	for path, want := range map[string]string{
		"/proc/self/oom_score_adj": "1000\n",
		"/proc/self/cgroup":        "",
	} {
		got := run(t, box, "/bin/cat", path).stdout
		if want != "" && got != want {
			t.Errorf("%s is %q, not %q", path, got, want)
		}
		if strings.Contains(got, "fumehood") {
			t.Errorf("%s tells names of the host: %q", path, got)
		}
	}
	if o := run(t, box, "/bin/bash", "-c", "ulimit -n; ulimit -u; ulimit -c"); o.stdout != "1024\n128\n0\n" {
		t.Errorf("limits are %q", o.stdout)
	}
	if o := run(t, box, "/bin/sh", "-c",
		"ls -d /proc/[0-9]* | wc -l; ls /.disk /root /home /boot 2>&1"); strings.Contains(o.stdout, "/proc/1\n") {
		t.Errorf("the guest is in sight: %q", o.stdout)
	}
}

// TestMaskOfServer: a server with its own umask makes the same sandboxes, folder by folder.
func TestMaskOfServer(t *testing.T) {
	const look = "umask; find / -xdev -path /proc -prune -o -printf '%p %m %U\\n' | sort; stat -c '%n %a' /workspace /tmp /home/agent /dev/shm"
	with := func(mask int) string {
		defer syscall.Umask(syscall.Umask(mask))
		return run(t, create(t, open(t, ""), spec()), "/bin/sh", "-c", look).stdout
	}
	if ordinary, strict := with(0o022), with(0o077); ordinary != strict || !strings.HasPrefix(ordinary, "0022\n") {
		t.Errorf("with 022:\n%s\nwith 077:\n%s", ordinary, strict)
	}
}

func TestCloseTwiceAndUsage(t *testing.T) {
	b := open(t, "")
	box := create(t, b, spec())
	run(t, box, "/bin/true")
	for range 2 {
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := leftovers(t, b, box.ID()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	end, err := box.Wait(context.Background())
	if err != nil || end.Cause != sandbox.EndClosed {
		t.Errorf("got %+v, %v", end, err)
	}
	if u, err := box.Usage(context.Background()); err != nil || u.Wall <= 0 {
		t.Errorf("got %+v, %v", u, err)
	}
	if _, err := box.Dial(context.Background()); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("dialling a closed box: %v", err)
	}
}

// TestGuestDies kills the guest from outside: the box reports it, and nothing of the sandbox is left.
func TestGuestDies(t *testing.T) {
	b := open(t, "")
	box := create(t, b, spec())
	pids := guestsOf(box.ID(), nil)
	if len(pids) != 1 {
		t.Fatalf("guests: %v", pids)
	}
	if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end, err := box.Wait(context.Background())
	if err != nil || end.Cause != sandbox.EndDied || end.Signal != 9 {
		t.Errorf("got %+v, %v", end, err)
	}
}

// TestCommands allows two programs: all others are missing, and cannot be brought in.
func TestCommands(t *testing.T) {
	b := open(t, "")
	s := spec()
	s.Commands = []string{"python3", "cat"}
	box := create(t, b, s)
	if o := run(t, box, "cat", "/etc/hostname"); o.stdout != "sandbox\n" {
		t.Errorf("got %+v", o)
	}
	code := `
import os, shutil, ctypes, json, ssl
print(os.path.exists("/bin/sh"), os.path.exists("/usr/bin/ls"))
shutil.copy("/usr/bin/cat", "/tmp/mine"); os.chmod("/tmp/mine", 0o755)
for how in ("/tmp/mine", "/lib64/ld-linux-x86-64.so.2"):
    pid = os.fork()
    if pid == 0:
        try: os.execv(how, [how, "/tmp/mine", "/etc/hostname"])
        except OSError as e: os._exit(e.errno)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
try: print("memfd", os.memfd_create("x"))
except OSError as e: print("memfd", e.errno)
`
	o := run(t, box, "python3", "-c", code)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if len(lines) != 4 || lines[0] != "False False" || lines[1] != "13" || lines[3] != "memfd 1" {
		t.Errorf("got %+v", o)
	}
	s = spec()
	s.Commands = []string{"no-such-program"}
	if _, err := b.Create(context.Background(), s); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("an unknown command: %v", err)
	}
}

// TestHostIDsAreUnique makes sandboxes side by side; no two may share a host user id.
func TestHostIDsAreUnique(t *testing.T) {
	if os.Geteuid() != 0 {
		return // an ordinary user has one id, or a range that is its own
	}
	b := open(t, "")
	seen := map[uint32]bool{}
	for range 20 {
		box := create(t, b, spec()).(*Box)
		for _, id := range []uint32{box.IDs.Guest, box.IDs.Code} {
			if seen[id] {
				t.Fatalf("host id %d was handed out twice", id)
			}
			seen[id] = true
		}
	}
}

func TestCanceledCreate(t *testing.T) {
	b := open(t, "")
	for delay := range 8 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(delay)*500*time.Microsecond, cancel)
		s := spec()
		box, err := b.Create(ctx, s)
		if err == nil {
			err = box.Close()
			if err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if left := leftovers(t, b, s.ID); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	backend := open(b, "")
	for b.Loop() {
		box, err := backend.Create(context.Background(), spec())
		if err != nil {
			b.Fatal(err)
		}
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
