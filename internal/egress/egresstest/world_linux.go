package egresstest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
)

const (
	HostAddress  = "5.5.5.2" // of the host, as the internet sees it
	HostAddress6 = "2a00:5::2"
	internet     = "5.5.5.1"
	internet6    = "2a00:5::1"
	Resolver     = "9.9.9.53" // the host's
)

const inside = "EGRESSTEST_INSIDE"

// Inside reruns the test in a process whose network and mounts are its own, and reports whether this is that process.
// The outer process reports the outcome. It needs root.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("iproute2 is not installed")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=^" + t.Name() + "$", fmt.Sprintf("-test.short=%v", testing.Short())}
	if at, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+remaining(at).String())
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), "PATH="+os.Getenv("PATH")+":"+filepath.Dir(ip))
	cmd.SysProcAttr = isolated()
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
	return false
}

// isolated starts a process with a network and mounts of its own, which ends with this one.
func isolated() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}

// remaining returns a little less than the time until a deadline, so that the inner process reports where it hangs.
func remaining(at time.Time) time.Duration {
	return max(time.Until(at)-5*time.Second, time.Second).Round(time.Second)
}

// World is the internet. It answers at every address.
type World struct {
	t         *testing.T
	thread    chan func() // runs on a thread in the internet's namespace
	authority []byte      // its certificate, in PEM
	signer    *intercept.Signer
	zone      zone
	outside   canary // at the internet
	loopback  canary // at the host's own services
	barriers  int
}

// New makes the internet of this process, which Inside has isolated. It ends with the process.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{t: t, thread: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the process
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range w.thread {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	w.wire()
	w.trust()
	w.resolve()
	w.watch()
	return w
}

// do runs f on the thread in the internet's namespace.
func (w *World) do(f func()) {
	done := make(chan struct{})
	w.thread <- func() { defer close(done); f() }
	<-done
}

// wire connects host and internet by a pair of interfaces. In the internet's namespace each address is local, but for
// the host's.
func (w *World) wire() {
	w.t.Helper()
	var tid int
	w.do(func() { tid = unix.Gettid() })
	ip(w.t, fmt.Sprintf(`link set lo up
link add out0 type veth peer name in0
link set in0 netns /proc/%d/task/%d/ns/net
addr add %s/24 dev out0
link set out0 up
route add default via %s`, os.Getpid(), tid, HostAddress, internet))
	w.do(func() {
		ip(w.t, fmt.Sprintf(`link set lo up
addr add %s/24 dev in0
link set in0 up
route add local default dev lo table main`, internet))
	})
	if !Has6() {
		return
	}
	ip(w.t, "-6 addr add "+HostAddress6+"/64 dev out0 nodad")
	w.do(func() {
		ip(w.t, "-6 addr add "+internet6+"/64 dev in0 nodad\n-6 route add local default dev lo table main")
	})
	ip(w.t, "-6 route add default via "+internet6)
}

// Host changes the network of the host by lines of ip(8).
func (w *World) Host(lines string) {
	w.t.Helper()
	ip(w.t, lines)
}

// Has6 reports whether this host has IPv6.
func Has6() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

func ip(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		// of this thread's namespace
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
}

// Listen listens in the internet, at every address.
func (w *World) Listen(port int) net.Listener {
	w.t.Helper()
	var l net.Listener
	var err error
	w.do(func() { l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port)) })
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	return l
}

// Take serves each connection at a port with f.
func (w *World) Take(port int, f func(net.Conn)) {
	l := w.Listen(port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(c) }()
		}
	}()
}

// Web serves HTTP at port 80, and HTTPS at port 443 under every name, whose certificates the host and its sandboxes
// trust.
func (w *World) Web(h http.Handler) {
	w.t.Helper()
	quiet := log.New(io.Discard, "", 0) // of connections that the gate resets
	for port, config := range map[int]*tls.Config{80: nil, 443: {GetCertificate: w.certificate}} {
		server := &http.Server{Handler: h, TLSConfig: config, ErrorLog: quiet}
		l := w.Listen(port)
		w.t.Cleanup(func() { server.Close() })
		go func() {
			var err error
			if config == nil {
				err = server.Serve(l)
			} else {
				err = server.ServeTLS(l, "", "")
			}
			if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				w.t.Error(err)
			}
		}()
	}
}

// cover puts content in the place of a file, for this process and its children.
func (w *World) cover(path string, content []byte) {
	w.t.Helper()
	f, err := os.CreateTemp("", "egresstest-") // not in the test's folder, which would be busy
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.Remove(f.Name()) }) // at the end, as a mounted file must keep its name
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close(), unix.Mount(f.Name(), path, "", unix.MS_BIND, "")); err != nil {
		w.t.Fatal(err)
	}
}

// Datagrams hands each datagram to an address of the internet to f.
func (w *World) Datagrams(address string, f func([]byte)) {
	w.t.Helper()
	var c net.PacketConn
	var err error
	w.do(func() { c, err = net.ListenPacket("udp", address) })
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, _, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			f(b[:n])
		}
	}()
}
