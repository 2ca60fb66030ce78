//go:build linux

package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// place is a network namespace of the test's own, whose only way out is the gate, and a mount namespace in which the
// gate is the resolver.
type place struct {
	t      testing.TB
	thread chan func() // runs on a thread in the namespaces
	gate   *gate
	world  *world
	panics atomic.Pointer[any] // the value of a panic in the gate
}

// world is the internet of a test: what addresses and names there are. The gate dials nothing else.
type world struct {
	mu      sync.Mutex
	servers map[string]string // "tcp 93.184.216.34:80" -> where the test listens
	names   map[string][]netip.Addr
	dialled []string
	asked   []string
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	to := w.servers[network+" "+address]
	w.dialled = append(w.dialled, network+" "+address)
	w.mu.Unlock()
	if to == "" {
		return nil, unix.EHOSTUNREACH
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (w *world) resolve(_ context.Context, network, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, name)
	all, ok := w.names[strings.TrimSuffix(name, ".")]
	if !ok {
		return nil, &net.DNSError{IsNotFound: true}
	}
	var found []netip.Addr
	for _, a := range all {
		if a.Is4() == (network == "ip4") {
			found = append(found, a)
		}
	}
	return found, nil
}

// at puts a server that listens at to behind a public address.
func (w *world) at(network, address, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[network+" "+address] = to
}

func (w *world) name(name string, addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = nil
	for _, a := range addresses {
		w.names[name] = append(w.names[name], netip.MustParseAddr(a))
	}
}

// reached lists what the gate dialled since the last call.
func (w *world) reached() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.dialled
	w.dialled = nil
	return list
}

func allow(rules ...string) sandbox.NetworkPolicy {
	return sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: rules}
}

// complete gives the secrets of a policy their placeholders.
func complete(t testing.TB, policy *sandbox.NetworkPolicy) {
	t.Helper()
	if err := (&Host{}).Complete(policy); err != nil {
		t.Fatal(err)
	}
}

// newPlace makes a namespace with a gate. Both end with the test.
func newPlace(t testing.TB, policy sandbox.NetworkPolicy) *place {
	t.Helper()
	return newPlaceWith(t, policy, func(*Options) {})
}

func newPlaceWith(t testing.TB, policy sandbox.NetworkPolicy, more func(*Options)) *place {
	t.Helper()
	return newPlaceOf(t, policy, func(h *Host) { more(&h.Options) })
}

func newPlaceOf(t testing.TB, policy sandbox.NetworkPolicy, more func(*Host)) *place {
	t.Helper()
	w := &world{servers: map[string]string{}, names: map[string][]netip.Addr{}}
	h := &Host{Options: Options{Dial: w.dial, Resolve: w.resolve}}
	more(h)
	return newPlaceOn(t, h, w, sandbox.Spec{Network: policy, Limits: sandbox.DefaultLimits}, "")
}

// newPlaceOn makes a place of an owner, whose gate is the host's.
func newPlaceOn(t testing.TB, h *Host, w *world, spec sandbox.Spec, owner string) *place {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make a network namespace and a device in it")
	}
	if err := tap.Available(); err != nil {
		t.Skip(err)
	}
	p := &place{t: t, thread: make(chan func()), world: w}
	ready := make(chan error)
	go p.serve(ready, t.TempDir())
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(p.thread) })
	var file *os.File
	var err error
	p.do(func() {
		var ns int
		if ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			file, err = tap.Make(context.Background(), tap.Place{FD: ns}, false)
			unix.Close(ns)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := func(v any) { p.panics.Store(&v) }
	if p.gate, err = h.open(file, spec, owner, failed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.gate.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// serve runs functions on a thread of its own, which ends with it.
func (p *place) serve(ready chan<- error, dir string) {
	runtime.LockOSThread()
	conf := filepath.Join(dir, "resolv.conf")
	err := errors.Join(
		os.WriteFile(conf, []byte("nameserver 198.18.0.1\noptions edns0\n"), 0o644),
		unix.Unshare(unix.CLONE_NEWNET|unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(conf, "/etc/resolv.conf", "", unix.MS_BIND, ""),
	)
	ready <- err
	for f := range p.thread {
		f()
	}
}

// do runs f on the thread in the namespaces.
func (p *place) do(f func()) {
	done := make(chan struct{})
	p.thread <- func() { defer close(done); f() }
	<-done
}

// run runs a shell command inside and returns what it prints, and its error.
func (p *place) run(script string) string {
	p.t.Helper()
	var out bytes.Buffer
	var cmd *exec.Cmd
	var err error
	p.do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		p.t.Cleanup(cancel)
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", script)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		err = cmd.Start()
	})
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		fmt.Fprintf(&out, "[%v]", err)
	}
	return strings.TrimSpace(out.String())
}

// dial connects from inside.
func (p *place) dial(network, address string) (c net.Conn, err error) {
	p.do(func() { c, err = net.DialTimeout(network, address, 20*time.Second) })
	if err == nil {
		p.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (p *place) mustDial(network, address string) net.Conn {
	p.t.Helper()
	c, err := p.dial(network, address)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// look asks the gate for the addresses of a name.
func (p *place) look(network, name string) ([]netip.Addr, error) {
	var found []netip.Addr
	var err error
	resolver := &net.Resolver{PreferGo: true, Dial: func(_ context.Context, n, _ string) (net.Conn, error) {
		return p.dial(n, "198.18.0.1:53")
	}}
	found, err = resolver.LookupNetIP(context.Background(), network, name+".")
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

// logged waits until the log has an attempt that suits, and returns it.
func (p *place) logged(what string, suits func(Attempt) bool) Attempt {
	p.t.Helper()
	return p.loggedAfter(0, what, suits)
}

// loggedAfter is logged, of the attempts after one.
func (p *place) loggedAfter(seq uint64, what string, suits func(Attempt) bool) Attempt {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		list, err := p.gate.Follow(ctx, seq)
		if err != nil {
			p.t.Fatalf("no attempt was logged that %s: %+v", what, p.gate.Last(20))
		}
		for _, a := range list {
			if seq = a.Seq; suits(a) {
				return a
			}
		}
	}
}

func (p *place) setPolicy(policy sandbox.NetworkPolicy) {
	p.t.Helper()
	if _, err := p.gate.SetPolicy(policy); err != nil {
		p.t.Fatal(err)
	}
}

// listen serves every connection with f, and returns where.
func listen(t testing.TB, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(c) }()
		}
	}()
	return l.Addr().String()
}
