//go:build linux

package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
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
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted,
		Allow: []string{"site.example", "other.example",
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
		{"GET / HTTP/1.1\r\nhOST:\tSite.Example. \r\n\r\n", "GET / HTTP/1.1\r\nhOST:\tSite.Example. \r\n\r\n",
			""},
		{"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n",
			"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n",
			""},
		{strings.ReplaceAll(ok, "site", "a.wild"), strings.ReplaceAll(ok, "site", "a.wild"), ""},
		{post("Content-Length: 5\r\n", "GET /") + ok, post("Content-Length: 5\r\n", "GET /") + ok, ""},
		{post("Transfer-Encoding: chunked\r\n", "3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n") + ok,
			post("Transfer-Encoding: chunked\r\n",
				"3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n") + ok, ""},

		{strings.ReplaceAll(ok, "site", "evil"), "", rules.NoRule},
		{strings.ReplaceAll(ok, "site", "no.wild"), "", rules.Denied},
		{strings.ReplaceAll(ok, "site", "other"), "", rules.NotResolved},
		{strings.ReplaceAll(ok, "site", "b.wild"), "", rules.NotResolved},
		{ok + strings.ReplaceAll(ok, "site", "evil"), ok, rules.NoRule},
		{post("Content-Length: 3\r\n", "abc") + strings.ReplaceAll(ok, "site", "evil"),
			post("Content-Length: 3\r\n", "abc"),
			rules.NoRule},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET http://site.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "", rules.NoRule},
		{"GET http://site.example@evil.example/ HTTP/1.0\r\n\r\n", "", sniff.ErrHost.Error()},
		{"CONNECT site.example:443 HTTP/1.1\r\nHost: site.example\r\n\r\n", "", sniff.ErrConnect.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example:81\r\n\r\n", "", sniff.ErrPort.Error()},
		{"GET / HTTP/1.1\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET / HTTP/1.0\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\nHost: evil.example\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\x00.evil.example\r\n\r\n", "", sniff.ErrHead.Error()},
		{"GET / HTTP/1.1\r\nHost: " + site + "\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET / HTTP/1.1\r\nHost: 0x5db8d822\r\n\r\n", "", sniff.ErrHost.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\n X: y\r\n\r\n", "", sniff.ErrHead.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\nHost: evil.example\r\n\r\n", "", sniff.ErrHead.Error()},
		{"GET / HTTP/1.1\r\nHost : site.example\r\n\r\n", "", sniff.ErrHead.Error()},
		{"GET  / HTTP/1.1\r\nHost: site.example\r\n\r\n", "", sniff.ErrHead.Error()},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", sniff.ErrVersion.Error()},
		{"GET / HTTP/1.1\r\nHost: site.example\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "",
			sniff.ErrVersion.Error()},
		{"OPTIONS * HTTP/1.1\r\nHost: site.example\r\nUpgrade: TLS/1.0, HTTP/1.1\r\nConnection: Upgrade\r\n\r\n", "",
			sniff.ErrVersion.Error()},
		{post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "", sniff.ErrBody.Error()},
		{post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), "", sniff.ErrBody.Error()},
		{post("Content-Length: +3\r\n", "abc"), "", sniff.ErrBody.Error()},
		{post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "", sniff.ErrBody.Error()},
		{"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", sniff.MaxHead) + "\r\n", "", sniff.ErrHead.Error()},
	} {
		for _, port := range []string{":80", ":8080"} {
			for _, step := range []int{len(c.sent), 7} { // in one piece, and in many
				if step == 7 && len(c.sent) > 1000 {
					continue
				}
				seq := p.gate.Position()
				conn := p.mustDial("tcp", site+port)
				for b := []byte(c.sent); len(b) > 0; b = b[min(step, len(b)):] {
					if _, err := conn.Write(b[:min(step, len(b))]); err != nil {
						break // it was reset
					}
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				<-over
				a := p.loggedAfter(seq, "is the connection",
					func(a Attempt) bool { return a.Protocol == sandbox.ProtocolTCP })
				if passed := got.taken(); passed != c.passes && !(c.reason != "" &&
					strings.HasPrefix(c.passes, passed)) ||
					a.Allowed != (c.reason == "") || a.Reason != c.reason && c.reason != "" {
					t.Errorf("%.60q at %s by %d: %q passed, want %q; %+v, want %q", c.sent, port, step, passed,
						c.passes, a, c.reason)
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
		{"site.example", site, ""}, {"SITE.example", site, ""}, {"other.example", "93.184.216.35", ""},
		{"any.example", "93.184.216.99", ""},
		{"", "93.184.216.99", ""},
		{"evil.example", site, rules.NoRule}, {"other.example", site, rules.NotResolved}, {"", site, noServer},
	} {
		seq := p.gate.Position()
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
	conn := tls.Client(p.mustDial("tcp", site+":443"), &tls.Config{ServerName: "secret.example",
		InsecureSkipVerify:             true,
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

// TestDisguisedHTTP: at other ports than 80 and 443 other protocols pass, but no request that a lenient server may find
// in them, and no answer in HTTP.
func TestDisguisedHTTP(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	var got canary
	over := make(chan struct{}, 16)
	answer := ""
	server := listen(t, func(c net.Conn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err == nil {
			_, _ = got.Write(first)
			_, _ = io.WriteString(c, answer)
			_, _ = io.Copy(&got, c)
		}
		over <- struct{}{}
	})
	p.world.at("tcp", site+":8080", server)
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	const evil = "Host: evil.example\r\n\r\n"
	const logged = "<13>a log\r\n1.2.3.4 - - \"GET / HTTP/1.1\" 200 agent/1.0\r\n"
	hidden, version := sniff.ErrDisguised.Error(), sniff.ErrVersion.Error()
	for _, c := range []struct{ sent, answer, passes, reason string }{
		{"GET / http/1.1\r\n" + evil, "", "", version},
		{"GET / RTSP/1.0\r\n" + evil, "", "", version},
		{" GET / HTTP/1.1\r\n" + evil, "", "", sniff.ErrHead.Error()},
		{"GET /" + strings.Repeat("a", sniff.MaxFirst) + " HTTP/1.1\r\n" + evil, "", "", rules.NoRule},
		{"GET / HTTP/1.1", "", "", sniff.ErrHead.Error()},
		{"SSH-2.0-x\r\nGET / HTTP/1.1\r\n" + evil, "", "", hidden},
		{"SSH-2.0-x\r\nx\r\nget / http/1.0\n" + evil, "", "", hidden},
		{"PING\r\nGET / HTTP/1.1\r\n" + evil, "", "", hidden},
		{"\x00\nGET / HTTP/1.1\r\n" + evil, "", "", hidden},
		{"SSH-2.0-x\r\n\x00GET / HTTP/1.1\r\n" + evil, "http/1.1 200 OK\r\n\r\n", "", hidden},
		{"SSH-2.0-x\r\n", "SSH-2.0-y\r\n", "SSH-2.0-x\r\n", ""},
		{logged, "", logged, ""},
	} {
		answer = c.answer
		seq := p.gate.Position()
		conn := p.mustDial("tcp", site+":8080")
		_, _ = io.WriteString(conn, c.sent)
		back := make([]byte, len(c.answer))
		n, _ := io.ReadFull(conn, back)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		<-over
		a := p.loggedAfter(seq, "is the connection", func(a Attempt) bool { return a.Protocol == sandbox.ProtocolTCP })
		passed := got.taken()
		if a.Reason != c.reason || c.reason == "" && passed != c.passes ||
			c.reason != "" && (n > 0 || c.answer == "" && passed != "") {
			t.Errorf("%.60q: %q passed, want %q; %q came back; %+v, want %q", c.sent, passed, c.passes, back[:n], a,
				c.reason)
		}
	}
}

// TestServerFirst: at other ports the server may speak first, and the connection passes unread; both halves close
// alone.
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

// TestShortFirst: where names do not matter, a protocol whose first byte is that of TLS passes unread, over a
// connection of any dialer.
func TestShortFirst(t *testing.T) {
	p := newPlaceWith(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return struct{ duplex.Conn }{c.(*net.TCPConn)}, err
		}
	})
	p.world.at("tcp", site+":25", listen(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%q", b)
	}))
	c := p.mustDial("tcp", site+":25")
	_, _ = c.Write([]byte{sniff.TLSHandshake, 3})
	_ = c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != `"\x16\x03"` {
		t.Errorf("%q, %v", b, err)
	}
}

// TestUpgrade: after 101 both sides speak as they like; an upgrade that is refused goes on in HTTP.
func TestUpgrade(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	for port, status := range map[string]string{":80": "101 Switching Protocols\r\n\r\n",
		":81": "200 OK\r\nContent-Length: 0\r\n\r\n"} {
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
			"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"+
				"\x81\x00 frames\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		if strings.HasSuffix(string(b), "frames\r\n\r\n") != passes || passes != (err == nil) {
			t.Errorf("%s: %q, %v", port, b, err)
		}
	}
	p.logged("has the status of the upgrade", func(a Attempt) bool { return a.Status == 101 && a.Method == "GET" })
}

// TestNameDuringChange: a name that is checked while the policy changes is checked by the new one, too.
func TestNameDuringChange(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"bad.example"}})
	p.web(hello1, site)
	c := p.mustDial("tcp", site+":443")
	hello := tls.Client(c, &tls.Config{ServerName: "site.example", InsecureSkipVerify: true})
	p.gate.pins.mu.Lock() // so that checks wait
	failed := make(chan error)
	go func() { failed <- hello.Handshake() }()
	for len(p.gate.Current()) == 0 || p.gate.Current()[0].Sent == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // the check has begun
	was := p.gate.rules.Load()
	changed := make(chan error)
	go func() {
		_, err := p.gate.SetPolicy(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"site.example"}})
		changed <- err
	}()
	for p.gate.rules.Load() == was {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // it waits for the names of the connection
	p.gate.pins.mu.Unlock()
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("a connection for a denied name is open")
	}
}
