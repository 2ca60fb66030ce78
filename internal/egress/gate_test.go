//go:build linux

package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	site  = "93.184.216.34"
	site6 = "2606:2800:220:1::1"
)

// web serves a site over HTTP and HTTPS, at the ports 80 and 443 of its addresses.
func (p *place) web(handler http.HandlerFunc, addresses ...string) {
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that the gate resets
	secure.StartTLS()
	p.t.Cleanup(plain.Close)
	p.t.Cleanup(secure.Close)
	for _, a := range addresses {
		p.world.at("tcp", net.JoinHostPort(a, "80"), plain.Listener.Addr().String())
		p.world.at("tcp", net.JoinHostPort(a, "443"), secure.Listener.Addr().String())
	}
}

func hello1(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %d", r.Method, r.Host, r.URL.Path, len(body))
}

// TestPrograms lets ordinary programs use the network, with no setting of theirs.
func TestPrograms(t *testing.T) {
	p := newPlace(t, allow("site.example", "*.example.org:443"))
	p.web(hello1, site, site6, "203.0.114.9")
	p.world.name("site.example", site, site6)
	p.world.name("a.b.example.org", "203.0.114.9")
	p.world.name("example.org", "203.0.114.9")
	for _, c := range []struct{ script, want string }{
		{"curl -s -S http://site.example/x", "GET site.example /x 0"},
		{"curl -s -S -4 http://site.example/x", "GET site.example /x 0"},
		{"curl -s -S -k https://site.example/y", "GET site.example /y 0"},
		{"curl -s -S -k https://a.b.example.org/z", "GET a.b.example.org /z 0"},
		{"head -c 3000000 /dev/zero | curl -s -S --data-binary @- http://site.example/up",
			"POST site.example /up 3000000"},
		{`/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("http://site.example/p").read().decode())'`,
			"GET site.example /p 0"},
		{"getent ahostsv4 site.example | head -1 | cut -d' ' -f1", site},
		{"curl -s http://a.b.example.org/", "[exit status 7]"},
		{"curl -s -k https://example.org/", "[exit status 6]"},
		{"curl -s http://" + site + "/", "[exit status 56]"},
		{"curl -s http://1.2.3.4/", "[exit status 7]"},
		{"getent hosts other.example", "[exit status 2]"},
	} {
		if got := p.run(c.script); got != c.want {
			t.Errorf("%s: %q, want %q", c.script, got, c.want)
		}
	}
	for _, to := range p.world.reached() {
		if !strings.Contains(to, site) && !strings.Contains(to, site6) && to != "tcp 203.0.114.9:443" {
			t.Errorf("the gate dialled %s", to)
		}
	}
	if t.Failed() {
		for _, a := range p.gate.Last(100) {
			t.Logf("%+v", a)
		}
	}
}

// TestFullDenies: mode full reaches the internet, but not a denied name by its address.
func TestFullDenies(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"bad.example"}})
	p.web(hello1, site)
	p.world.name("bad.example", site)
	p.world.name("site.example", site)
	for script, want := range map[string]string{
		"curl -s http://" + site + "/a":                                "GET " + site + " /a 0",
		"curl -s http://site.example/b":                                "GET site.example /b 0",
		"curl -s -k https://site.example/b":                            "GET site.example /b 0",
		"curl -s http://bad.example/":                                  "[exit status 6]",
		"curl -s -H 'Host: bad.example' http://" + site:                "[exit status 56]",
		"curl -s -H 'Host: bad.example:' http://" + site:               "[exit status 56]",
		"curl -s -H 'Host: bad.example:080' http://" + site:            "[exit status 56]",
		"curl -s -H 'Host: bad.example:99999' http://" + site:          "[exit status 56]",
		"curl -s -H 'Host: bad.example..' http://" + site:              "[exit status 56]",
		"curl -s -H 'Host: [::1]:80' http://" + site:                   "GET [::1]:80 / 0",
		"curl -s -k --connect-to ::" + site + ": https://bad.example/": "[exit status 35]",
		"curl -s http://10.0.0.1/":                                     "[exit status 7]",
		"curl -s http://169.254.169.254/":                              "[exit status 7]",
	} {
		if got := p.run(script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	p.logged("has the request", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolHTTP && a.Path == "/b" && a.Status == http.StatusOK &&
			a.Name == "site.example"
	})
	for _, before := range []string{"\x15\x03\x01\x00\x02\x01\x64", "\x15", "\x14\x03\x03\x00\x01\x01"} {
		c := p.mustDial("tcp", site+":443") // a server of crypto/tls skips a warning before the hello
		_, err := io.WriteString(c, before[:1])
		if err == nil {
			_, err = io.WriteString(c, before[1:])
		}
		if err == nil {
			err = tls.Client(c, &tls.Config{ServerName: "bad.example", InsecureSkipVerify: true}).Handshake()
		}
		if err == nil {
			t.Errorf("a hello behind %q reached a denied name", before)
		}
	}
	if got := fmt.Sprint(p.gate.Refusals(0, 99)); !strings.Contains(got, "bad.example") {
		t.Error(got)
	}
}

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
	p.setPolicy(allow("site.example"))
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
	p.setPolicy(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	unread := p.mustDial("tcp", "9.9.9.9:25")
	fmt.Fprintln(unread, "c")
	if _, err := io.ReadFull(unread, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	p.world.name("late.example", "9.9.9.9")
	if _, err := p.look("ip4", "late.example"); err != nil {
		t.Fatal(err)
	}
	p.setPolicy(allow("site.example", "late.example"))
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

// TestLateInterception: a connection that was open before the policy inspects its name cannot avoid the inspection.
func TestLateInterception(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	p.web(hello1, site)
	open := p.mustDial("tcp", site+":443")
	for len(p.gate.Current()) == 0 { // the gate has yet to register it
		runtime.Gosched()
	}
	p.setPolicy(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"site.example"}})
	conn := tls.Client(open, &tls.Config{ServerName: "site.example", InsecureSkipVerify: true})
	if err := conn.Handshake(); err == nil {
		t.Error("the connection reached the server without inspection")
	}
	p.logged("is reset", func(a Attempt) bool { return strings.HasPrefix(a.Reason, policyChanged) && !a.Allowed })
}

// TestLateSecret: a connection that was open before its port was one of a host of secrets cannot ask that host without
// TLS.
func TestLateSecret(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	plain := httptest.NewServer(http.HandlerFunc(hello1))
	t.Cleanup(plain.Close)
	p.world.at("tcp", site+":8443", plain.Listener.Addr().String())
	c := p.mustDial("tcp", site+":8443")
	in := bufio.NewReader(c)
	ask := func(host string) error {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		answer, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		return err
	}
	if err := ask("other.example:8443"); err != nil {
		t.Fatal(err)
	}
	policy := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Secrets: []sandbox.Secret{{Name: "TOKEN",
		Hosts: []string{"site.example:8443"}, Value: "a value of a secret"}}}
	complete(t, &policy)
	p.setPolicy(policy)
	if err := ask("other.example:8443"); err != nil {
		t.Error(err)
	}
	if ask("site.example:8443") == nil {
		t.Error("a host of secrets answered without TLS")
	}
	p.logged("is refused", func(a Attempt) bool { return a.Reason == policyChanged+withoutTLS && !a.Allowed })
}

// TestLateDeny: a connection that was open, and had stated no name, before the policy denies a name cannot state that
// name later.
func TestLateDeny(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	p.web(hello1, site)
	open := p.mustDial("tcp", site+":443")
	for len(p.gate.Current()) == 0 { // the gate has yet to register it
		runtime.Gosched()
	}
	p.setPolicy(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"bad.example"}})
	conn := tls.Client(open, &tls.Config{ServerName: "bad.example", InsecureSkipVerify: true})
	if err := conn.Handshake(); err == nil {
		t.Error("the connection reached a denied name")
	}
	p.logged("is reset", func(a Attempt) bool { return strings.HasPrefix(a.Reason, policyChanged) })
}

// TestForgottenName: an open connection goes on after the gate has forgotten the name of its address, also under new
// rules that allow the name.
func TestForgottenName(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	p.web(hello1, site)
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	c := p.mustDial("tcp", site+":80")
	in := bufio.NewReader(c)
	ask := func() {
		t.Helper()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
		if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(err)
		} else if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	p.gate.pins.mu.Lock()
	clear(p.gate.pins.by)
	p.gate.pins.mu.Unlock()
	ask()
	p.setPolicy(allow("site.example", "other.example"))
	ask()
	if _, err := p.dial("tcp", site+":80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
}

// closeForGood closes a connection of the sandbox, whose kernel then answers for it for a second. The gate looks soon.
func closeForGood(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_LINGER2, 1) // seconds
	}); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// probeSoon shortens probeAfter for a test.
func probeSoon(t *testing.T) {
	usual := probeAfter
	t.Cleanup(func() { probeAfter = usual })
	probeAfter = 100 * time.Millisecond
}

// TestClosedForGood: a connection ends if its program has closed it, also if the server never answers.
func TestClosedForGood(t *testing.T) {
	probeSoon(t)
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	p.world.at("tcp", site+":25", listen(t, func(net.Conn) { <-hold }))
	closeForGood(t, p.mustDial("tcp", site+":25"))
	p.logged("is reset", func(a Attempt) bool { return a.Reason == errReset.Error() })
}

// TestUpgradeClosedForGood: so does one that waits for the answer to an upgrade.
func TestUpgradeClosedForGood(t *testing.T) {
	probeSoon(t)
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"bad.example"}}) // names matter
	asked, hold := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(hold) })
	p.world.at("tcp", site+":80", listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		close(asked)
		<-hold
	}))
	c := p.mustDial("tcp", site+":80")
	_, _ = io.WriteString(c,
		"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	<-asked
	closeForGood(t, c)
	p.logged("is reset", func(a Attempt) bool { return a.Reason == errReset.Error() })
}

// TestWebSocketClosedForGood: so does one of a WebSocket in TLS that ends in the gate, with all its connections to the
// server.
func TestWebSocketClosedForGood(t *testing.T) {
	probeSoon(t)
	p, outside, trust, _ := openHostile(t)
	ended := make(chan struct{})
	p.world.at("tcp", "93.184.216.40:443", listenTLS(t, outside.TLS, func(c net.Conn) {
		b := make([]byte, 1<<10)
		n, _ := c.Read(b)
		if !strings.Contains(string(b[:n]), "websocket") {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+
			"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)                       // it does not end its half
		_, _ = io.Copy(io.Discard, c.(*tls.Conn).NetConn()) // until the gate closes the connection
		close(ended)
	}))
	conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	in := bufio.NewReader(conn)
	for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: api.test\r\n%s\r\n", upgrade)
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
	}
	closeForGood(t, conn.NetConn())
	p.logged("is reset", func(a Attempt) bool { return a.Reason == errReset.Error() })
	<-ended
}

// TestClosedUnread: so does one whose server does not read, while the gate has bytes for it, also if the server has
// ended its side.
func TestClosedUnread(t *testing.T) {
	probeSoon(t)
	for _, ends := range []bool{false, true} {
		p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
		hold := make(chan struct{})
		t.Cleanup(func() { close(hold) })
		p.world.at("tcp", site+":25", listen(t, func(c net.Conn) {
			if ends {
				_ = c.(*net.TCPConn).CloseWrite()
			}
			<-hold
		}))
		c := p.mustDial("tcp", site+":25").(*net.TCPConn)
		_ = c.SetDeadline(time.Now().Add(time.Second))
		for b, err := make([]byte, 1<<20), error(nil); err == nil; {
			_, err = c.Write(b)
		}
		_ = c.SetLinger(0)
		c.Close()
		p.logged("is reset", func(a Attempt) bool { return a.Reason == errReset.Error() })
	}
}
