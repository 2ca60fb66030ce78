package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// Linux alone has all of 127.0.0.0/8 from the start, so these tests have several clients there.

// H04: endless headers and bodies hold a connection but no slot, and each address gets half of the connections. One
// more replaces the oldest without a whole header, or is closed if there is none.
func TestHeldConnections(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{MaxConnections: 8})
	const inHeader = "POST /v1/run HTTP/1.1\r\nHost: loc"
	const inBody = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
	var dripping, serving []net.Conn
	dial := func(from, request string) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(stepTimeout))
		io.WriteString(conn, request)
		return conn
	}
	for range 4 {
		dripping = append(dripping, dial("127.0.0.2", inHeader))
		conn, line := r.hold("127.0.0.3", inBody)
		if !strings.Contains(line, "100 Continue") {
			t.Fatal(line)
		}
		serving = append(serving, conn)
	}
	isClosed := func(conn net.Conn) bool {
		_, err := conn.Read(make([]byte, 1))
		return err != nil && !strings.Contains(err.Error(), "timeout")
	}
	if !isClosed(dial("127.0.0.3", inHeader)) {
		t.Error("one address has more than its half, of which all are served")
	}
	newcomer, line := r.hold("127.0.0.4", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if !strings.Contains(line, "200") || !isClosed(dripping[0]) {
		t.Errorf("where all connections are held, a newcomer gets %q", line)
	}
	if s := r.engine.Stats(); s.Running+s.Queued != 0 {
		t.Errorf("a body that is not read holds a slot: %+v", s)
	}
	newcomer.Close()
	for _, conn := range dripping[1:] { // the others are served
		io.WriteString(conn, "alhost\r\nContent-Length: 0\r\n\r\n")
		serving = append(serving, conn)
	}
	for i, conn := range serving {
		if i < 4 {
			io.WriteString(conn, strings.Repeat("x", 1000))
		}
		if isClosed(conn) {
			t.Errorf("connection %d was closed as well", i)
		}
	}
	if res, _ := r.do("GET", "/healthz", "{}", nil); !res.Close {
		t.Error("a connection is held for a body that nobody reads")
	}
}

// H04: requests without a key give way while they are answered, and while net/http waits for the body that they do not
// send.
func TestKeylessConnectionsGiveWay(t *testing.T) {
	const places = 4
	for _, request := range []string{
		"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
		"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
	} {
		r, alice, _ := newTwoClients(t, httpd.Config{MaxConnections: places})
		for range 3 {
			for i := range places {
				r.hold(fmt.Sprintf("127.0.0.%d", 2+i%2), request)
			}
			conn, line := r.hold("127.0.0.4", "GET /v1/languages HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+alice["X-API-Key"]+"\r\n\r\n")
			if !strings.Contains(line, "200") {
				t.Errorf("beside %q, a client with a key gets %q", request, line)
			}
			conn.Close()
		}
	}
}

// H04: one key has half of the connections, from however many addresses. Further requests are refused: a handler would
// not be counted once its connection gave way. The other half is of another key; its connections count until the server
// has seen their end, so the test opens no more than those.
func TestConnectionsOfOneKey(t *testing.T) {
	const places = 4
	r, alice, bob := newTwoClients(t, httpd.Config{MaxConnections: places})
	body := "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
	for i := range places {
		_, line := r.hold(fmt.Sprintf("127.0.0.%d", 2+i%2),
			"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+alice["X-API-Key"]+"\r\n"+body)
		if want := []string{"100", "429"}[i/(places/2)]; !strings.Contains(line, want) {
			t.Errorf("request %d of the key is not answered %s but %q", i, want, line)
		}
	}
	for range places / 2 {
		conn, line := r.hold("127.0.0.4", "GET /v1/languages HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+bob["X-API-Key"]+"\r\n\r\n")
		if !strings.Contains(line, "200") {
			t.Errorf("another key gets %q", line)
		}
		conn.Close()
	}
}

// Incomplete heads of all connections share 4 MiB: past it, the oldest gives way. Idle connections do not.
func TestIncompleteHeads(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	send := func(head string) net.Conn {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(stepTimeout))
		io.WriteString(conn, head)
		return conn
	}
	const whole = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	idle := send(whole)
	answers := bufio.NewReader(idle)
	healthy := func() bool {
		answer, err := http.ReadResponse(answers, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		return err == nil && answer.StatusCode == 200
	}
	begun := healthy()
	oldest := send("GET / HTTP/1.1\r\n")
	for range 4<<20/30_000 + 1 {
		send("GET / HTTP/1.1\r\n" + strings.Repeat("a:\r\n", 7_500))
	}
	oldest.Read(make([]byte, 1)) // until it is closed
	if text := r.ok(200, "GET", "/metrics", ""); strings.Contains(text, "fumehood_http_connections_refused_total 0\n") {
		t.Error("incomplete heads past the bound stay until their timeout")
	}
	io.WriteString(idle, whole)
	if !begun || !healthy() {
		t.Error("an idle connection is closed beside incomplete heads")
	}
}

// A frame of HTTP/2 is held until it is complete, so its size is the least that RFC 9113, section 4.2, requires.
func TestFrameSize(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	server := httptest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2 = r.server.HTTPServer(), true
	server.StartTLS()
	defer server.Close()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, _ := frame.(*http2.SettingsFrame)
	if size, ok := settings.Value(http2.SettingMaxFrameSize); !ok || size != 16<<10 {
		t.Errorf("the server announces frames of up to %d bytes", size)
	}
}
