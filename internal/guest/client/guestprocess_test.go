package client_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// guestLease is the variable that makes the test binary a guest. Its value is the lease in milliseconds.
const guestLease = "FUMEHOOD_GUESTTEST"

// guestForgone is the variable that marks a guest that executes this program for the second time.
const guestForgone = "FUMEHOOD_GUESTTEST_FORGONE"

// guestKey is the key of every guest that a test starts.
var guestKey = [32]byte{1, 2, 3, 4}

// hangTimeout bounds what may hang, far above the time that anything takes on a busy machine.
const hangTimeout = 2 * time.Minute

const guestID = "guesttest"

// runAsGuest is the first call of TestMain. In a child that startGuest started, it runs the guest and never returns.
func runAsGuest() {
	lease := os.Getenv(guestLease)
	if lease == "" {
		return
	}
	if os.Getpid() == 1 {
		if os.Getenv(guestForgone) == "" {
			exitOn(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
			exitOn(unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"))
			forgo(unix.CAP_SYS_PTRACE)
		}
		os.Unsetenv(guestForgone)
	} else {
		exitOn(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	}
	os.Unsetenv(guestLease)
	ms, err := strconv.Atoi(lease)
	exitOn(err)
	unix.SetNonblock(3, true)
	unix.SetNonblock(4, true)
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	oom, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	exitOn(err)
	s, err := server.New(server.Config{
		Key: guestKey, ID: guestID, Init: true, Lease: time.Duration(ms) * time.Millisecond, OOMScore: oom,
		User:     sandbox.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
		Lifeline: os.NewFile(4, "lifeline"),
	})
	exitOn(err)
	go s.Serve(os.NewFile(3, "listener"))
	os.Stdout.WriteString(string(s.Wait()) + "\n")
	s.Close()
	os.Exit(0)
}

// forgo drops a capability. It executes this program again, as only that reaches all threads of a program with cgo.
func forgo(capability uintptr) {
	runtime.LockOSThread()
	exitOn(unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0))
	exitOn(syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), guestForgone+"=1")))
}

func exitOn(err error) {
	if err != nil {
		os.Stderr.WriteString("guest: " + err.Error() + "\n")
		os.Exit(3)
	}
}

// guestProcess is a guest without a sandbox: a child that is a subreaper, so it reaps like pid 1, with a listening
// socket in a folder of the test.
type guestProcess struct {
	PID  int
	path string
	cmd  *exec.Cmd
	out  *os.File
	life *os.File
	ends chan string

	killed bool
}

// startGuest starts a guest that ends with the test. A lease of 0 is for ever.
func startGuest(t testing.TB, lease time.Duration) *guestProcess {
	t.Helper()
	return startGuestIn(t, lease, 0)
}

// startInit starts a guest as pid 1 of a pid namespace, with a /proc in which each user sees only its own processes,
// and without the capability to bypass that: as strict as a sandbox. It needs root and otherwise skips the test.
func startInit(t testing.TB) *guestProcess {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a pid namespace with its own /proc here")
	}
	return startGuestIn(t, 0, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS)
}

func startGuestIn(t testing.TB, lease time.Duration, flags uintptr) *guestProcess {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	g := &guestProcess{path: filepath.Join(dir, "s"), ends: make(chan string, 1)}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: g.path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	lf, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g.life, g.out = lifeW, outR
	g.cmd = exec.Command("/proc/self/exe")
	// With the race detector, each guest would sleep for a second before it exits.
	g.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"),
		guestLease+"="+strconv.Itoa(int(lease/time.Millisecond)))
	g.cmd.ExtraFiles = []*os.File{lf, lifeR}
	g.cmd.Stdout, g.cmd.Stderr = outW, os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.PID = g.cmd.Process.Pid
	lf.Close()
	lifeR.Close()
	outW.Close()
	go func() {
		var b [64]byte
		n, _ := outR.Read(b[:])
		g.ends <- string(b[:n])
	}()
	t.Cleanup(func() {
		lifeW.Close()
		g.End(t)
		if err := g.cmd.Wait(); err != nil && !g.killed {
			t.Errorf("the guest ended with %v", err) // a data race is exit status 66
		}
		outR.Close()
		os.RemoveAll(dir)
	})
	return g
}

// End waits until the guest has ended and returns the reason.
func (g *guestProcess) End(t testing.TB) string {
	t.Helper()
	select {
	case why := <-g.ends:
		g.ends <- why
		return why
	case <-time.After(hangTimeout):
		g.cmd.Process.Kill()
		t.Errorf("the guest does not end")
		return ""
	}
}

func (g *guestProcess) Release() { g.life.Close() }

func (g *guestProcess) Kill() {
	g.killed = true
	g.cmd.Process.Kill()
}

// Dial returns a fresh connection to the guest.
func (g *guestProcess) Dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Client returns a client that closes with the test.
func (g *guestProcess) Client(t testing.TB) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	c, err := client.New(ctx, g.Dial(t), guestKey)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
