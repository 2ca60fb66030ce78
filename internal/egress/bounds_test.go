//go:build linux

package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestChange: new rules hold at once, for open connections too.
func TestChange(t *testing.T) {
	p := newPlace(t, allow("site.example", "9.9.9.9", "8.8.8.8:99"))
	server := listen(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	for _, to := range []string{site + ":25", "9.9.9.9:25"} {
		p.world.at("tcp", to, server)
	}
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	stays, goes := p.mustDial("tcp", site+":25"), p.mustDial("tcp", "9.9.9.9:25")
	for _, c := range []net.Conn{stays, goes} {
		fmt.Fprintln(c, "a")
		if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if list := p.gate.Current(); len(list) != 2 || list[0].Sent != 2 || list[1].Received != 2 {
		t.Errorf("%+v", list)
	}
	p.gate.SetRules(compile(t, allow("site.example")))
	if _, err := goes.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the refused connection: %v", err)
	}
	fmt.Fprintln(stays, "b")
	if _, err := io.ReadFull(stays, make([]byte, 2)); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	if _, err := p.dial("tcp", "9.9.9.9:25"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
	// What was not read while any host was allowed cannot be trusted once names decide.
	p.gate.SetRules(compile(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}))
	unread := p.mustDial("tcp", "9.9.9.9:25")
	fmt.Fprintln(unread, "c")
	if _, err := io.ReadFull(unread, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	p.world.name("late.example", "9.9.9.9")
	if _, err := p.look("ip4", "late.example"); err != nil {
		t.Fatal(err)
	}
	p.gate.SetRules(compile(t, allow("site.example", "late.example")))
	if _, err := unread.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that was not read: %v", err)
	}
	if err := p.gate.Close(); err != nil {
		t.Error(err)
	}
	if _, err := stays.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its gate")
	}
	if _, err := p.dial("tcp", site+":25"); err == nil {
		t.Error("a connection without a gate")
	}
}

// TestBounds: connections at once and a second, and bytes.
func TestBounds(t *testing.T) {
	policy := allow("9.9.9.9")
	policy.MaxConnections, policy.ConnectionRate, policy.MaxReceived = 3, 8, 100_000
	p := newPlace(t, policy)
	p.world.at("tcp", "9.9.9.9:25", listen(t, func(c net.Conn) { _, _ = io.Copy(c, c) }))
	p.world.at("tcp", "9.9.9.9:26", listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_, _ = io.Copy(c, zeroes{})
	}))
	var open []net.Conn
	for range 3 {
		open = append(open, p.mustDial("tcp", "9.9.9.9:25"))
	}
	if _, err := p.dial("tcp", "9.9.9.9:25"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one more: %v", err)
	}
	p.logged("says too many", func(a Attempt) bool { return a.Reason == tooMany && !a.Allowed })
	for _, c := range open {
		c.Close()
	}
	p.logged("ends the last connection", func(a Attempt) bool { return a.Allowed && a.Seq >= 4 })
	for refused := false; !refused; {
		c, err := p.dial("tcp", "9.9.9.9:25")
		if refused = err != nil; !refused {
			c.Close()
		}
	}
	p.logged("says too fast or too many", func(a Attempt) bool { return a.Reason == tooFast || a.Reason == tooMany && a.Seq > 4 })
	policy.ConnectionRate, policy.MaxConnections = 0, 0
	p.gate.SetRules(compile(t, policy))
	for {
		c, err := p.dial("tcp", "9.9.9.9:26")
		if err != nil {
			continue // the rate of before still holds for a moment
		}
		fmt.Fprint(c, "x")
		n, err := io.Copy(io.Discard, c)
		if err == nil || n > 100_000+copySize {
			t.Errorf("%d bytes came, %v", n, err)
		}
		break
	}
	if _, err := p.dial("tcp", "9.9.9.9:26"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after all bytes are used: %v", err)
	}
}

// TestCounts: a flood of refused attempts is counted exactly, in bounded memory.
func TestCounts(t *testing.T) {
	attempts := 100_000
	if testing.Short() {
		attempts = 5_000 // each is a connection of the kernel's
	}
	p := newPlace(t, allow("site.example"))
	p.do(func() {
		for n := 0; n < attempts; {
			var batch []unix.PollFd // fewer than may be half-open
			for ; n < attempts && len(batch) < maxHalfOpen/2; n++ {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					t.Error(err)
					return
				}
				to := unix.SockaddrInet4{Port: 1 + n%50_000, Addr: [4]byte{11, byte(n >> 8), byte(n), 1}}
				if err := unix.Connect(fd, &to); !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("attempt %d: %v", n, err)
				}
				batch = append(batch, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
			}
			for i := range batch {
				if ready, err := unix.Poll(batch[i:i+1], 20_000); ready != 1 || batch[i].Revents&(unix.POLLHUP|unix.POLLERR) == 0 {
					t.Errorf("an attempt was not refused: %v, %x", err, batch[i].Revents)
				}
				unix.Close(int(batch[i].Fd))
			}
		}
	})
	s := p.gate.Log().Summary()
	if s.Refused != uint64(attempts) || s.Allowed != 0 || s.Protocols[sandbox.ProtocolTCP].Refused != uint64(attempts) {
		t.Errorf("%+v, want %d refused", s.NetworkTotal, attempts)
	}
	var hosts uint64
	for _, h := range s.Hosts {
		hosts += h.Refused
	}
	if hosts != uint64(attempts) || len(s.Hosts) != maxHosts+1 {
		t.Errorf("%d attempts at %d hosts", hosts, len(s.Hosts))
	}
	if kept := p.gate.Log().Last(1 << 30); len(kept) != maxAttempts || kept[len(kept)-1].Seq != uint64(attempts) {
		t.Errorf("%d attempts are kept", len(kept))
	}
	if list := p.gate.Log().Refusals(uint64(attempts-1), 9); len(list) != 1 || !list[0].Fix {
		t.Errorf("%v", list)
	}
}
