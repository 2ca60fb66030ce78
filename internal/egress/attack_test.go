//go:build linux

package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// canary is a server that keeps all that reaches it.
type canary struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (c *canary) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.Write(b)
}

func (c *canary) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.got.Reset()
	return c.got.String()
}

// TestHTTPNames: what a connection allowed by name may ask for. The canary says what reached the server.
func TestHTTPNames(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"site.example", "other.example",
		"*.wild.example"}, Deny: []string{"no.wild.example"}})
	var got canary
	over := make(chan struct{}, 16)
	server := listen(t, func(c net.Conn) { _, _ = io.Copy(&got, c); over <- struct{}{} })
	for _, port := range []string{":80", ":8080"} {
		p.world.at("tcp", site+port, server)
	}
	p.world.name("site.example", site)
	p.world.name("a.wild.example", site)
	p.world.name("other.example", "93.184.216.35")
	for _, name := range []string{"site.example", "a.wild.example", "other.example"} {
		if _, err := p.look("ip4", name); err != nil {
			t.Fatal(err)
		}
	}
	const ok = "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"
	post := func(headers, body string) string {
		return "POST / HTTP/1.1\r\nHost: site.example\r\n" + headers + "\r\n" + body
	}
	for _, c := range []struct{ sent, passes, reason string }{
		{ok, ok, ""},
		{"\r\n" + ok + ok, "\r\n" + ok + ok, ""},
		{"GET / HTTP/1.1\r\nhOST:\tSite.Example.:80 \r\n\r\n", "GET / HTTP/1.1\r\nhOST:\tSite.Example.:80 \r\n\r\n", ""},
		{"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n", "GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n",
			""},
		{strings.ReplaceAll(ok, "site", "a.wild"), strings.ReplaceAll(ok, "site", "a.wild"), ""},
		{post("Content-Length: 5\r\n", "GET /") + ok, post("Content-Length: 5\r\n", "GET /") + ok, ""},
		{post("Transfer-Encoding: chunked\r\n", "3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n") + ok, post("Transfer-Encoding: chunked\r\n",
			"3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n") + ok, ""},

		{strings.ReplaceAll(ok, "site", "evil"), "", noRule},
		{strings.ReplaceAll(ok, "site", "no.wild"), "", denied},
		{strings.ReplaceAll(ok, "site", "other"), "", notThere},
		{strings.ReplaceAll(ok, "site", "b.wild"), "", notThere},
		{ok + strings.ReplaceAll(ok, "site", "evil"), ok, noRule},
		{post("Content-Length: 3\r\n", "abc") + strings.ReplaceAll(ok, "site", "evil"), post("Content-Length: 3\r\n", "abc"), noRule},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n", "", errHost.Error()},
		{"GET http://site.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "", errHost.Error()},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "", noRule},
		{"GET http://site.example@evil.example/ HTTP/1.0\r\n\r\n", "", errHost.Error()},
		{"CONNECT site.example:443 HTTP/1.1\r\nHost: site.example\r\n\r\n", "", errConnect.Error()},
		{"GET / HTTP/1.1\r\n\r\n", "", errHost.Error()},
		{"GET / HTTP/1.0\r\n\r\n", "", errHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\nHost: evil.example\r\n\r\n", "", errHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\x00.evil.example\r\n\r\n", "", errHead.Error()},
		{"GET / HTTP/1.1\r\nHost: " + site + "\r\n\r\n", "", errHost.Error()},
		{"GET / HTTP/1.1\r\nHost: 0x5db8d822\r\n\r\n", "", errHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\n X: y\r\n\r\n", "", errHead.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\nHost: evil.example\r\n\r\n", "", errHead.Error()},
		{"GET / HTTP/1.1\r\nHost : site.example\r\n\r\n", "", errHead.Error()},
		{"GET  / HTTP/1.1\r\nHost: site.example\r\n\r\n", "", errHead.Error()},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", errVersion.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "", errVersion.Error()},
		{post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "", errBody.Error()},
		{post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), "", errBody.Error()},
		{post("Content-Length: +3\r\n", "abc"), "", errBody.Error()},
		{post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "", errBody.Error()},
		{"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", maxHead) + "\r\n", "", errHead.Error()},
	} {
		for _, port := range []string{":80", ":8080"} {
			for _, step := range []int{len(c.sent), 7} { // in one piece, and in many
				if step == 7 && len(c.sent) > 1000 {
					continue
				}
				seq := p.gate.Log().Position()
				conn := p.mustDial("tcp", site+port)
				for b := []byte(c.sent); len(b) > 0; b = b[min(step, len(b)):] {
					if _, err := conn.Write(b[:min(step, len(b))]); err != nil {
						break // it was reset
					}
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				<-over
				a := p.loggedAfter(seq, "is the connection", func(a Attempt) bool { return a.Protocol == sandbox.ProtocolTCP })
				if passed := got.taken(); passed != c.passes && !(c.reason != "" && strings.HasPrefix(c.passes, passed)) ||
					a.Allowed != (c.reason == "") || a.Reason != c.reason && c.reason != "" {
					t.Errorf("%.60q at %s by %d: %q passed, want %q; %+v, want %q", c.sent, port, step, passed, c.passes, a, c.reason)
				}
			}
		}
	}
}

// TestTLSNames: the server name must be an allowed one of that address, and must be readable.
func TestTLSNames(t *testing.T) {
	p := newPlace(t, allow("site.example", "other.example", "93.184.216.99"))
	p.web(hello1, site, "93.184.216.35", "93.184.216.99")
	p.world.name("site.example", site)
	p.world.name("other.example", "93.184.216.35")
	for _, name := range []string{"site.example", "other.example"} {
		if _, err := p.look("ip4", name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ server, to, reason string }{
		{"site.example", site, ""}, {"SITE.example", site, ""}, {"other.example", "93.184.216.35", ""}, {"any.example", "93.184.216.99", ""},
		{"", "93.184.216.99", ""},
		{"evil.example", site, noRule}, {"other.example", site, notThere}, {"", site, noServer},
	} {
		seq := p.gate.Log().Position()
		conn := tls.Client(p.mustDial("tcp", c.to+":443"), &tls.Config{ServerName: c.server, InsecureSkipVerify: true})
		err := conn.Handshake()
		conn.Close()
		a := p.loggedAfter(seq, "is the connection", func(a Attempt) bool { return a.Protocol == sandbox.ProtocolTCP })
		if (err == nil) != (c.reason == "") || c.reason != "" && a.Reason != c.reason || a.Allowed != (c.reason == "") {
			t.Errorf("%q at %s: %v, %+v", c.server, c.to, err, a)
		}
	}
	key := make([]byte, 32)
	key[0] = 9 // any point of the curve
	conn := tls.Client(p.mustDial("tcp", site+":443"), &tls.Config{ServerName: "secret.example", InsecureSkipVerify: true,
		MinVersion:                     tls.VersionTLS13,
		EncryptedClientHelloConfigList: echConfigs("site.example", key)})
	if err := conn.Handshake(); err == nil {
		t.Error("a hello that hides its name passed")
	}
	p.logged("refuses the hidden name", func(a Attempt) bool { return a.Reason == hiddenName && !a.Allowed })
	raw := p.mustDial("tcp", site+":443")
	fmt.Fprint(raw, "SSH-2.0-x\r\n")
	if b, err := io.ReadAll(raw); err == nil || len(b) > 0 {
		t.Errorf("at 443, what is not TLS got %q, %v", b, err)
	}
	p.logged("is neither", func(a Attempt) bool { return a.Reason == neither && !a.Allowed })
}

// echConfigs is a list of one configuration (RFC 9849, section 4).
func echConfigs(public string, key []byte) []byte {
	var c []byte
	c = append(c, 7, 0, 0x20) // id, X25519
	c = append(binary.BigEndian.AppendUint16(c, uint16(len(key))), key...)
	c = append(c, 0, 4, 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	c = append(c, 32, byte(len(public)))
	c = append(append(c, public...), 0, 0)
	c = append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(c))), c...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(c))), c...)
}

// TestServerFirst: at other ports the server may speak first, and the connection passes unread; both halves close alone.
func TestServerFirst(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	p.world.at("tcp", site+":25", listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 hello\r\n")
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%q", b)
	}))
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	c := p.mustDial("tcp", site+":25")
	greeting := make([]byte, 11)
	if _, err := io.ReadFull(c, greeting); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "EHLO x") // incomplete, and so held until no more comes
	_ = c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != `"EHLO x"` {
		t.Errorf("%q, %v", b, err)
	}
}

// TestUpgrade: after 101 both sides speak as they like; an upgrade that is refused goes on in HTTP.
func TestUpgrade(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	for port, status := range map[string]string{":80": "101 Switching Protocols\r\n\r\n", ":81": "200 OK\r\nContent-Length: 0\r\n\r\n"} {
		p.world.at("tcp", site+port, listen(t, func(c net.Conn) {
			b := make([]byte, 1024)
			_, _ = c.Read(b)
			_, _ = io.WriteString(c, "HTTP/1.1 "+status)
			_, _ = io.Copy(c, c)
		}))
	}
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	for port, passes := range map[string]bool{":80": true, ":81": false} {
		c := p.mustDial("tcp", site+port)
		// What follows is no HTTP, and comes before the answer.
		_, _ = io.WriteString(c,
			"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00 frames\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		if strings.HasSuffix(string(b), "frames\r\n\r\n") != passes || passes != (err == nil) {
			t.Errorf("%s: %q, %v", port, b, err)
		}
	}
	p.logged("has the status of the upgrade", func(a Attempt) bool { return a.Status == 101 && a.Method == "GET" })
}

// TestResolver: names that are not allowed do not exist, and addresses that are not public are not handed out.
func TestResolver(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"site.example", "*.wild.example",
		"rebind.example", "intern.example", "10.7.7.7:99"}, Deny: []string{"no.wild.example"}})
	p.world.name("site.example", site, site6, "10.0.0.1", "::1", "64:ff9b::a00:1")
	p.world.name("x.wild.example", site)
	p.world.name("no.wild.example", site)
	p.world.name("evil.example", site)
	p.world.name("rebind.example", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")
	p.world.name("intern.example", "10.7.7.7")
	for _, c := range []struct{ network, name, want string }{
		{"ip", "site.example", "[" + site + " " + site6 + "]"}, {"ip4", "SITE.Example", "[" + site + "]"},
		{"ip4", "x.wild.example", "[" + site + "]"},
		{"ip4", "no.wild.example", "[]"}, {"ip4", "evil.example", "[]"}, {"ip4", "rebind.example", "[]"}, {"ip4", "wild.example", "[]"},
		{"ip4", "data.evil.example", "[]"},
		{"ip4", "intern.example", "[10.7.7.7]"}, {"ip4", "0x7f.0.0.1", "[]"},
	} {
		found, err := p.look(c.network, c.name)
		if got := fmt.Sprint(found); got != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	p.world.mu.Lock()
	for _, name := range p.world.asked {
		if strings.Contains(name, "evil") || strings.Contains(name, "no.wild") || !strings.HasSuffix(name, ".example.") {
			t.Errorf("the host's resolver was asked for %s", name)
		}
	}
	p.world.mu.Unlock()
	for _, to := range []string{"10.0.0.1:80", "169.254.169.254:80", "10.7.7.7:98"} {
		if c, err := p.dial("tcp", to); err == nil {
			c.Close()
			t.Errorf("%s was reached", to)
		}
	}
	if list := p.world.reached(); len(list) > 0 {
		t.Errorf("the gate dialled %q", list)
	}
	// Over TCP, and of a type that is not handed out: no data, and no error.
	c := p.mustDial("tcp", "198.18.0.1:53")
	query := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 's', 'i', 't', 'e', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 65, 0, 1} // HTTPS
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
	reply := make([]byte, 2+len(query))
	if _, err := io.ReadFull(c, reply); err != nil || reply[5]&15 != 0 || binary.BigEndian.Uint16(reply[8:]) != 0 {
		t.Errorf("%x, %v", reply, err)
	}
}

// TestPackets: only TCP and UDP pass, from the sandbox's own address, and pings are answered by the gate alone.
func TestPackets(t *testing.T) {
	p := newPlace(t, allow("site.example", "8.8.8.8:99", "9.9.9.9"))
	var mu sync.Mutex
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	heard := 0
	go func() {
		b := make([]byte, 65535)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			mu.Lock()
			heard++
			mu.Unlock()
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	for _, to := range []string{"8.8.8.8:99", "8.8.8.8:100", "9.9.9.9:443", site + ":443", site + ":80"} {
		p.world.at("udp", to, echo.LocalAddr().String())
	}
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	for to, passes := range map[string]bool{"8.8.8.8:99": true, "8.8.8.8:100": false, "9.9.9.9:443": false, site + ":443": false,
		site + ":80":       false,
		"224.0.0.251:5353": false, "198.18.0.1:54": false} {
		c := p.mustDial("udp", to)
		big := make([]byte, 20000) // in fragments
		_, err := c.Write(big)
		if to == "224.0.0.251:5353" {
			continue // no error tells of it
		}
		n, readErr := c.Read(big)
		if passes != (n == 20000) || !passes && err == nil && !errors.Is(readErr, syscall.ECONNREFUSED) {
			t.Errorf("%s: %d bytes, %v, %v", to, n, err, readErr)
		}
	}
	p.logged("refuses QUIC", func(a Attempt) bool { return a.Protocol == sandbox.ProtocolUDP && a.Reason == quic })
	for _, c := range []struct {
		name, to, reply string
		protocol        byte
		body            []byte
	}{
		{"a ping to the gate", "198.18.0.1", "\x00", 1, []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}},
		{"a ping to elsewhere", "9.9.9.9", "", 1, []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}},
		{"SCTP", "9.9.9.9", "", 132, make([]byte, 16)},
		{"GRE", "9.9.9.9", "", 47, make([]byte, 16)},
	} {
		seq := p.gate.Log().Position()
		var fd int
		p.do(func() { fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, int(c.protocol)) })
		if err != nil {
			t.Fatal(err)
		}
		to := netip.MustParseAddr(c.to)
		if err := syscall.Sendto(fd, c.body, 0, &syscall.SockaddrInet4{Addr: to.As4()}); err != nil {
			t.Fatal(err)
		}
		if c.reply == "" {
			p.loggedAfter(seq, "drops "+c.name, func(a Attempt) bool { return a.Protocol == sandbox.ProtocolIP && !a.Allowed && a.Address == to })
		} else {
			_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 20})
			b := make([]byte, 100)
			if n, _, err := syscall.Recvfrom(fd, b, 0); err != nil || n < 21 || string(b[20:21]) != c.reply {
				t.Errorf("%s: %x, %v", c.name, b[:max(n, 0)], err)
			}
		}
		syscall.Close(fd)
	}
	mu.Lock()
	defer mu.Unlock()
	if heard != 1 {
		t.Errorf("%d datagrams passed", heard)
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
		"curl -s -k --connect-to ::" + site + ": https://bad.example/": "[exit status 35]",
		"curl -s http://10.0.0.1/":                                     "[exit status 7]",
		"curl -s http://169.254.169.254/":                              "[exit status 7]",
	} {
		if got := p.run(script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	p.logged("has the request", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolHTTP && a.Path == "/b" && a.Status == http.StatusOK && a.Name == "site.example"
	})
	if got := fmt.Sprint(p.gate.Log().Refusals(0, 99)); !strings.Contains(got, "bad.example") {
		t.Error(got)
	}
}

// loggedAfter is logged, of the attempts after one.
func (p *place) loggedAfter(seq uint64, what string, suits func(Attempt) bool) Attempt {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		list, err := p.gate.Log().Follow(ctx, seq)
		if err != nil {
			p.t.Fatalf("no attempt was logged that %s: %+v", what, p.gate.Log().Last(20))
		}
		for _, a := range list {
			if seq = a.Seq; suits(a) {
				return a
			}
		}
	}
}
