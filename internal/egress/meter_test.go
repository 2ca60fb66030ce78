//go:build linux

package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
)

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
	p.logged("says too fast or too many", func(a Attempt) bool {
		return a.Reason == tooFast || a.Reason == tooMany &&
			a.Seq > 4
	})
	policy.ConnectionRate, policy.MaxConnections = 0, 0
	p.setPolicy(policy)
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
