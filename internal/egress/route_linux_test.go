//go:build linux

package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestRoutes: the route of the host decides, not its list of addresses. A rule opens an address of the host only if it
// lists exactly that one.
func TestRoutes(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	w.Host(`route add local 11.22.40.0/24 dev lo
route add unreachable 11.22.41.0/24
route add local default dev lo table 77
rule add ipproto tcp dport 7777 lookup 77 priority 7`)
	for address, want := range map[string]rules.Route{egresstest.HostAddress: rules.RouteHost,
		"11.22.40.9": rules.RouteHost, "5.5.5.255": rules.RouteBroadcast, "224.1.2.3": rules.RouteMulticast,
		"11.22.41.1": rules.RouteAway, "8.8.8.8": rules.RouteAway, "64:ff9b::b16:2809": rules.RouteHost} {
		if got := routeOfAddress(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	for to, want := range map[string]rules.Route{"8.8.8.8:7777": rules.RouteHost, "8.8.8.8:7778": rules.RouteAway} {
		if got := routeOf(netip.MustParseAddrPort(to), unix.IPPROTO_TCP); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	own6 := netip.AddrPortFrom(netip.MustParseAddr(egresstest.HostAddress6), 80)
	if got := routeOf(own6, unix.IPPROTO_UDP); egresstest.Has6() && got != rules.RouteHost {
		t.Errorf("%s: %q", own6, got)
	}
	if got := routeOf(netip.MustParseAddrPort("8.8.8.8:7777"), unix.IPPROTO_UDP); got != rules.RouteAway {
		t.Errorf("a datagram: %q", got)
	}
	dialer := net.Dialer{Control: forbidBroadcast}
	if c, err := dialer.Dial("udp", "5.5.5.255:9"); !errors.Is(err, unix.EACCES) {
		t.Errorf("a socket of the gate may broadcast: %v, %v", c, err)
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := newPlaceWith(t, allow("11.22.40.8", "11.22.40.0/24"), func(o *Options) { o.Dial, o.Resolve = nil, nil })
	p.mustDial("tcp", "11.22.40.8:"+port)
	if _, err := p.dial("tcp", "11.22.40.9:"+port); err == nil {
		t.Error("a prefix opened an address of the host")
	}
	p.setPolicy(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	p.logged("ended with its rule", func(a Attempt) bool {
		return a.Reason == policyChanged+"it is "+string(rules.RouteHost)
	})
}

// TestRouteChanges: a destination that becomes the host's after the check gets no byte.
func TestRouteChanges(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := newPlaceWith(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}, func(o *Options) {
		o.Resolve = nil
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if network == "tcp" {
				w.Host("route add local 11.22.50.0/24 dev lo")
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	if _, err := p.dial("tcp", "11.22.50.1:"+port); err == nil {
		t.Error("a connection to the host was accepted")
	}
	refused := func(a Attempt) bool { return !a.Allowed && a.Reason == routeChanged }
	p.logged("was refused", refused)
	c, err := l.Accept() // the connection that the gate closed unused
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 9)); n > 0 || err == nil {
		t.Errorf("the host got %d bytes, %v", n, err)
	}
	c.Close()

	arrived := make(chan []byte, 2)
	w.Datagrams("11.22.51.1:9", func(b []byte) { arrived <- bytes.Clone(b) })
	w.SeenByHost()
	u := p.mustDial("udp", "11.22.51.1:9")
	_, _ = u.Write([]byte("before"))
	if got := string(<-arrived); got != "before" {
		t.Errorf("%q arrived", got)
	}
	w.Host("route add local 11.22.51.0/24 dev lo")
	time.Sleep(routeAge + 10*time.Millisecond)
	_, _ = u.Write([]byte("after"))
	p.logged("ended", func(a Attempt) bool { return a.Protocol == sandbox.ProtocolUDP && a.Reason == routeChanged })
	if seen := w.SeenByHost(); len(seen) > 0 {
		t.Errorf("%q reached the host", seen)
	}
}

// TestHostItself: a sandbox reaches a loopback port of the host by the host's name, only where a rule lists it.
func TestHostItself(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	four, err := net.Listen("tcp", "127.0.0.1:8001")
	if err != nil {
		t.Fatal(err)
	}
	six, err := net.Listen("tcp", "[::1]:8002")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]net.Listener{"four": four, "six": six} {
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprint(rw, name, " ", r.Host)
		})}
		t.Cleanup(func() { server.Close() })
		go func() { _ = server.Serve(l) }() // until Close
	}
	heard, err := net.ListenPacket("udp", "127.0.0.1:8003")
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	p := newPlaceWith(t, allow("host:8001-8003"), func(o *Options) { o.Dial, o.Resolve = nil, nil })
	for url, want := range map[string]string{"host:8001": "four host:8001", "host:8002": "six host:8002",
		"HOST:8001": "four HOST:8001"} {
		if got := p.run("curl -sS http://" + url + "/"); got != want {
			t.Errorf("%s: %q", url, got)
		}
	}
	p.run("echo hello > /dev/udp/host/8003 2>/dev/null || exec bash -c 'echo hello > /dev/udp/host/8003'")
	b := make([]byte, 99)
	_ = heard.SetReadDeadline(time.Now().Add(time.Minute))
	if n, _, err := heard.ReadFrom(b); err != nil || string(b[:n]) != "hello\n" {
		t.Errorf("%q, %v", b[:n], err)
	}
	w.SeenByHost()
	for _, policy := range []sandbox.NetworkPolicy{{Mode: sandbox.NetworkFull}, allow("0.0.0.0/0", "::/0"),
		allow("host:8009"), {Mode: sandbox.NetworkFull, Allow: []string{"host:8001"},
			Deny: []string{"host:8001-8002"}}} {
		p.setPolicy(policy)
		p.run("curl -s -m 5 http://host:8001/; curl -s -m 5 http://198.18.0.1:8001/; " +
			"curl -s -m 5 http://[fd00:6675:6d65::1]:8001/")
		if seen := w.SeenByHost(); len(seen) > 0 {
			t.Errorf("%+v: %q reached the host", policy, seen)
		}
	}
}
