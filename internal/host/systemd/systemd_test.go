//go:build unix

package systemd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// environment looks up the variables of a map.
func environment(variables map[string]string) Environment {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// TestManager: each state reaches the socket of the service manager. Without one, nothing is sent.
func TestManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	m := NewManager(environment(map[string]string{"NOTIFY_SOCKET": path}))
	for want, send := range map[string]func() error{
		"^READY=1$": m.Ready, "^STOPPING=1$": m.Stopping, "^WATCHDOG=1$": m.Alive,
		"^RELOADING=1\nMONOTONIC_USEC=[0-9]+$": m.Reloading,
	} {
		buf := make([]byte, 100)
		if err := send(); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buf)
		if err != nil || !regexp.MustCompile(want).Match(buf[:n]) {
			t.Errorf("%q instead of %q, %v", buf[:n], want, err)
		}
	}
	if err := NewManager(environment(nil)).Ready(); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	if err := NewManager(environment(map[string]string{"NOTIFY_SOCKET": path + "x"})).Ready(); err == nil {
		t.Error("no error for a socket that does not exist")
	}
}

// TestWatchdog: the time is that of the variable, if it is for this process.
func TestWatchdog(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"1500000", "", 1500 * time.Millisecond}, {"1500000", self, 1500 * time.Millisecond},
		{"1500000", "1", 0}, {"0", "", 0}, {"-1", "", 0}, {"soon", "", 0},
	} {
		env := environment(map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid})
		if got := Watchdog(env); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// passedVariable makes this program the child of TestListener, with that many passed sockets.
const passedVariable = "SYSTEMD_TEST_PASSED"

// TestListener: a process takes the one socket that was passed to it, and none for another process.
func TestListener(t *testing.T) {
	if passed := os.Getenv(passedVariable); passed != "" {
		l, err := Listener(environment(map[string]string{
			"LISTEN_PID": strconv.Itoa(os.Getpid()), "LISTEN_FDS": passed}))
		switch {
		case err != nil:
			t.Fatalf("error: %v", err)
		case l == nil:
			t.Fatal("no socket")
		}
		t.Fatalf("listener: %v", l.Addr())
	}
	if l, err := Listener(environment(map[string]string{"LISTEN_PID": "1", "LISTEN_FDS": "1"})); l != nil || err != nil {
		t.Errorf("for another process: %v, %v", l, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, c := range []struct {
		passed string
		file   *os.File
		want   string
	}{
		{"1", socket, "listener: " + listener.Addr().String()}, {"0", socket, "no socket"},
		{"2", socket, "error: several sockets"}, {"1", plain, "error: "},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestListener$")
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), passedVariable+"="+c.passed), []*os.File{c.file}
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), c.want) {
			t.Errorf("%s passed: %s, want %q", c.passed, out, c.want)
		}
	}
}
