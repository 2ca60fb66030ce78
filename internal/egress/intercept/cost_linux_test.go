package intercept

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/test/racing"
)

// TestCurves: neither side of a connection exchanges keys by P-521, which costs more than a handshake is charged.
func TestCurves(t *testing.T) {
	var spent atomic.Int64
	s, c := serverFor(t, &spent)
	costly := &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP521}, InsecureSkipVerify: true, ServerName: "x"}
	certificate, err := s.signer.Certificate("api.test")
	if err != nil {
		t.Fatal(err)
	}
	costly.Certificates = []tls.Certificate{*certificate}
	if err := dialWith(t, s, c, costly); err == nil {
		t.Error("with a server")
	}
	inside := s.tls.Clone()
	inside.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
	near, far := net.Pipe()
	go func() {
		_ = tls.Client(far, costly).Handshake()
		far.Close()
	}()
	if err := tls.Server(near, inside).Handshake(); err == nil || !strings.Contains(err.Error(), "key exchange") {
		t.Errorf("with the sandbox: %v", err)
	}
}

// TestBodyMemory: a request with a body claims what net/http may take to send it.
func TestBodyMemory(t *testing.T) {
	var claimed int64
	s := &Server{config: Config{Reserve: func(n int64) string { claimed += n; return "" }}}
	for length, want := range map[int64]int64{-1: frameMemory, 0: 0, 10: 10, 1 << 40: frameMemory} {
		x := &exchange{}
		claimed = 0
		r := &http.Request{Body: io.NopCloser(strings.NewReader("")), ContentLength: length}
		if _, reason := s.reserveBody(x, r); reason != "" || claimed != want || x.reserved != want {
			t.Errorf("a body of %d bytes: %d are claimed, %d noted, %q", length, claimed, x.reserved, reason)
		}
	}
	claimed = 0
	if _, reason := s.reserveBody(&exchange{}, &http.Request{Body: http.NoBody}); reason != "" || claimed != 0 {
		t.Errorf("no body: %d, %q", claimed, reason)
	}
}

type answerWith http.Header

func (a answerWith) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header(a).Clone(), Body: http.NoBody}, nil
}

// TestFieldCost: passing on the fields of an answer costs not much more than is charged. An answer in HTTP/2 may have
// long ones in a few bytes.
func TestFieldCost(t *testing.T) {
	names := make([]string, 15)
	for i := range names {
		names[i] = strings.Repeat("a,", 2000)
	}
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var charged time.Duration
	before := used()
	for range 20 {
		fields := &answerFields{spend: func(d time.Duration) { charged += d }}
		proxy := httputil.ReverseProxy{Transport: refunding{answerWith{"Connection": names}, fields},
			Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "https", "api.test" }}
		w := httptest.NewRecorder()
		if proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
	}
	took := used() - before
	t.Logf("%s of CPU time were used, and %s charged", took, charged)
	if took > 4*charged && !racing.On {
		t.Errorf("%s of CPU time were used, and %s charged", took, charged)
	}
}

type announcing int

func (a announcing) RoundTrip(*http.Request) (*http.Response, error) {
	r := &http.Response{StatusCode: http.StatusOK, Trailer: http.Header{}, Body: http.NoBody}
	for i := range int(a) {
		r.Trailer["X"+strconv.Itoa(i)] = nil
	}
	return r, nil
}

// TestManyTrailers: an answer that announces many trailers is refused, as net/http would compare each with all others.
func TestManyTrailers(t *testing.T) {
	for count, want := range map[announcing]error{maxHeadLines: nil, maxHeadLines + 1: tooLarge} {
		fields := &answerFields{spend: func(time.Duration) {}}
		if _, err := (refunding{count, fields}).RoundTrip(nil); !errors.Is(err, want) {
			t.Errorf("%d trailers: %v", count, err)
		}
	}
}

// TestAnswerTable: a server of HTTP/2 cannot repeat a long field in a byte: its connection ends.
func TestAnswerTable(t *testing.T) {
	var spent atomic.Int64
	s, c := serverFor(t, &spent)
	certificate, err := s.signer.Certificate("api.test")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{protocolHTTP2}}
	headers := func(block string) string {
		const endBoth = 5 // END_STREAM and END_HEADERS
		size := len(block)
		return string([]byte{0, byte(size >> 8), byte(size), duplex.FrameHeaders, endBoth, 0, 0, 0, 1}) + block
	}
	ended := make(chan error, 1)
	c.Dial = func(context.Context) (net.Conn, error) {
		return connectTo(t, config, func(server *tls.Conn) {
			_, _ = io.ReadFull(server, make([]byte, 100)) // the beginning of a request
			// a field of 4000 bytes, to remember (RFC 7541, section 6.2.1)
			const long = "\x40\x01x\x7f\xa1\x1e"
			_, _ = io.WriteString(server, "\x00\x00\x00\x04\x00\x00\x00\x00\x00"+ // SETTINGS
				headers("\x88"+long+strings.Repeat("a", 4000))+headers("\xbe\xbe"))
			_ = server.SetReadDeadline(time.Now().Add(2 * time.Second))
			_, err := io.Copy(io.Discard, server)
			ended <- err
		}), nil
	}
	transport := s.newTransport(c)
	defer transport.CloseIdleConnections()
	// there is an answer, unless the connection has ended before it is read
	_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "https://api.test/", nil))
	if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection goes on")
	}
}
