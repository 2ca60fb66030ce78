package httpd

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// startTLS starts a server with HTTP/2, whose requests wait in wait.
func startTLS(t *testing.T, wait func(*http.Request)) (*Server, *httptest.Server) {
	s := newServer(t, Config{})
	s.Handle(Route{Method: "GET", Path: "/", Handler: func(_ *Response, r *http.Request) error {
		wait(r)
		return nil
	}})
	server := httptest.NewUnstartedServer(nil)
	server.Listener = Listen(server.Listener)
	server.Config, server.EnableHTTP2 = s.HTTPServer(), true
	server.StartTLS()
	t.Cleanup(server.Close)
	return s, server
}

// TestRefusedHeads: heads of HTTP/2 that are too long count as they were decoded, although no handler begins.
func TestRefusedHeads(t *testing.T) {
	s, server := startTLS(t, func(*http.Request) { t.Error("a handler begins") })
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const settings, headers, ping, last, heads = 4, 1, 6, 5, 50 // RFC 9113, section 6
	frame := func(kind, flags, stream byte, payload string) string {
		return string([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
	}
	const request = "\x82\x87\x84\x01\x01x" // RFC 7541, appendix A
	sent := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, 0, 0, "") +
		frame(headers, last, 1, request+"\x40\x01x\x7f\xa1\x1e"+strings.Repeat("x", 4000)+strings.Repeat("\xbe", 9))
	for i := range byte(heads) {
		sent += frame(headers, last, 2*i+3, request+strings.Repeat("\xbe", 9))
	}
	before := s.shares.seconds(&s.shares.noted)
	for _, sent := range []string{sent, ""} { // the second finds the work of the first
		_, _ = io.WriteString(conn, sent+frame(ping, 0, 0, "12345678"))
		for got := ""; !strings.HasSuffix(got, "12345678"); {
			b := make([]byte, 1)
			if _, err := io.ReadFull(conn, b); err != nil {
				t.Fatal(err)
			}
			got += string(b)
		}
	}
	const each = maxHeaderBytes * 20 * time.Nanosecond
	if got, want := s.shares.seconds(&s.shares.noted)-before, (heads * each).Seconds(); got < want {
		t.Errorf("%f s of work, want %f", got, want)
	}
}

// TestHTTP2Shutdown: a request of HTTP/2 has the state of its TLS, and a server that shuts down waits for it.
func TestHTTP2Shutdown(t *testing.T) {
	entered, leave := make(chan bool, 1), make(chan struct{})
	_, server := startTLS(t, func(r *http.Request) {
		entered <- r.TLS != nil && r.TLS.HandshakeComplete && r.ProtoMajor == 2
		<-leave
	})
	answered := make(chan error)
	go func() {
		response, err := server.Client().Get(server.URL)
		if err == nil {
			err = response.Body.Close()
		}
		answered <- err
	}()
	if secure := <-entered; !secure {
		t.Error("the request has no state of TLS")
	}
	ended := make(chan error)
	go func() { ended <- server.Config.Shutdown(t.Context()) }()
	close(leave)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
