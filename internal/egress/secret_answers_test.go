//go:build linux

package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostileHost answers with the value, which it knows although the request did not carry it, wherever an answer can have
// text.
func hostileHost() map[string]http.HandlerFunc {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("someone:"+token))
	return map[string]http.HandlerFunc{
		"/all": func(w http.ResponseWriter, r *http.Request) {
			fill := func() {
				w.Header().Set("X-Known", token)
				w.Header().Set("X-Basic", basic)
				w.Header().Set("X-"+token, "1")
			}
			fill()
			w.WriteHeader(http.StatusEarlyHints)
			fill()
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Trailer", "X-Late, X-Late-"+token)
			fmt.Fprintf(w, "%v %s %s", slices.Concat(r.Header["Range"], r.Header["Request-Range"],
				r.Header["Accept-Charset"]), r.Header["Accept-Encoding"], token[:9])
			_ = http.NewResponseController(w).Flush()
			fmt.Fprintf(w, "%s %s", token[9:], basic)
			w.Header().Set("X-Late", token)
			w.Header().Set("X-Late-"+token, "1")
			w.Header().Set(http.TrailerPrefix+"X-Later", token)
			w.Header().Set(http.TrailerPrefix+"X-Later-"+token, "1")
		},
		"/parts": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Accept-Ranges", "bytes") },
		"/zip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Content-Encoding", "")
			w.Header().Add("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, token)
			z.Close()
		},
		"/grpc": func(w http.ResponseWriter, r *http.Request) { // as servers of gRPC choose a compressor
			if r.Header.Get("Grpc-Accept-Encoding") == "gzip" || r.URL.RawQuery == "always" {
				w.Header().Set("Grpc-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, token)
				z.Close()
				return
			}
			_, _ = io.WriteString(w, "plain "+token)
		},
		"/wide": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-16")
			for _, c := range token {
				_, _ = w.Write([]byte{byte(c), 0})
			}
		},
		"/mainframe": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", `text/plain; Charset="IBM037"`)
			for _, c := range token {
				_, _ = w.Write([]byte{byte(c) ^ 0xc0})
			}
		},
		"/broken": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "the value begins with\n"+token[:10])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"/switch": func(w http.ResponseWriter, r *http.Request) {
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "HTTP/1.1 101 %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Protocol: %s\r\n"+
				"X-%s: 1\r\n\r\n", token, r.Header.Get("Upgrade"), token, token)
			early := make([]byte, len(r.Header.Get("X-Early")))
			_, _ = io.ReadFull(buffered, early)
			_, _ = c.Write(early)
		},
	}
}

// openHostile is a place with a host that knows the value, and its trusted certificates.
func openHostile(t *testing.T) (*place, *vault, string, sandbox.NetworkPolicy) {
	t.Helper()
	policy := allow("other.test")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	complete(t, &policy)
	p, outside, trust := openPlace(t, policy, func(_ *Host, v *vault) { v.knows = hostileHost() })
	return p, outside, trust, policy
}

// TestSecretInAnswers: no answer of a host of secrets repeats the value, whichever request carried it: not in its body,
// in headers of any status, in interim answers, in trailers or in their names.
func TestSecretInAnswers(t *testing.T) {
	p, _, trust, _ := openHostile(t)
	curl := "curl -sS -i --cacert " + trust + " "
	for _, c := range []struct{ args, want string }{
		{"--http1.1 https://api.test/all", "x-later: ghp_"},
		{"--http2 https://api.test/all", "x-later: ghp_"},
		{"--http2 -H 'Range: bytes=0-3' -H 'Accept-Encoding;' -H 'Accept-Encoding: gzip' " +
			"-H 'Request-Range: bytes=0-3' -H 'Accept-Charset: utf-16' https://api.test/all", "\n[] [identity] ghp_"},
		{"-I https://api.test/all", "x-known: ghp_"},
		{"https://api.test/parts", "accept-ranges: none"},
		{"--compressed https://api.test/zip", "its answer is compressed"},
		{"-H 'Grpc-Accept-Encoding: gzip' https://api.test/grpc", "plain ghp_"},
		{"'https://api.test/grpc?always'", "its answer is compressed"},
		{"-H 'Accept: application/json;charset=utf-16' https://api.test/wide", "its answer is in utf-16"},
		{"-H 'Accept: text/plain;charset=IBM037' https://api.test/mainframe", "another character set"},
		{"--http1.1 https://api.test/broken", "the value begins with\n[exit status 18]"},
		{"--http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' https://api.test/switch",
			"sec-websocket-protocol: ghp_"},
	} {
		got := strings.ToLower(strings.NewReplacer("\r", "", "\x00", "").Replace(p.run(curl + c.args)))
		if strings.Contains(got, strings.ToLower(token)) || strings.Contains(got, "someone:") ||
			strings.Contains(got, "z2hwx1") || !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q, or a value, in\n%s", c.args, c.want, got)
		}
	}
}

// TestReadOnly: with a policy that only permits reading, a program can send nothing but GET and HEAD with the value.
func TestReadOnly(t *testing.T) {
	policy := allow()
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	policy.ReadOnly = true
	complete(t, &policy)
	p, outside, trust := openPlace(t, policy)
	curl := "curl -sS -o /dev/null -w '%{http_code}' --cacert " + trust + " -H 'Authorization: " +
		policy.Secrets[0].Placeholder + "' https://api.test/o "
	for _, version := range []string{"--http1.1 ", "--http2 "} {
		for _, args := range []string{"-d x", "-X PUT -d x", "-X DELETE", "-X PROPFIND", "-X GET -d x",
			"-H 'Transfer-Encoding: chunked' -X GET -d x", "-H 'X-HTTP-Method-Override: PUT'"} {
			if got := p.run(curl + version + args); got != "405" {
				t.Errorf("%s: %s", args, got)
			}
		}
	}
	if got := p.run(curl + "--http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket'"); got != "405" {
		t.Errorf("an upgrade: %s", got)
	}
	if seen := outside.all(); seen != "" {
		t.Errorf("the server saw %q", seen)
	}
	for _, args := range []string{"", "-I"} {
		if got := p.run(curl + args); got != "200" {
			t.Errorf("%s: %s", args, got)
		}
	}
	if seen := outside.all(); seen != "api.test "+token+"\napi.test "+token {
		t.Errorf("the server saw %q", seen)
	}
}

// TestServerConnections: requests share a connection to a server of HTTP/2. Without HTTP/2 each has a separate one.
func TestServerConnections(t *testing.T) {
	p, outside, trust, _ := openHostile(t)
	old := httptest.NewUnstartedServer(outside)
	old.TLS = outside.TLS.Clone()
	old.StartTLS()
	t.Cleanup(old.Close)
	curl := "curl -sS --cacert " + trust + strings.Repeat(" https://api.test/", 4)
	for i, dials := range []int{1, 4} {
		p.world.reached()
		if got := p.run(curl); strings.Count(got, "GET /") != 4 {
			t.Errorf("%q", got)
		}
		if got := p.world.reached(); len(got) != dials {
			t.Errorf("%d: %q for four requests", i, got)
		}
		p.world.at("tcp", "93.184.216.40:443", old.Listener.Addr().String())
	}
}

// secretClient returns a connection of the sandbox to a host, with TLS.
func (p *place) secretClient(t *testing.T, address, name, trust string, protocols ...string) *tls.Conn {
	t.Helper()
	if _, err := p.look("ip4", name); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if b, err := os.ReadFile(trust); err != nil || !roots.AppendCertsFromPEM(b) {
		t.Fatal(err)
	}
	return tls.Client(p.mustDial("tcp", address), &tls.Config{ServerName: name, RootCAs: roots,
		NextProtos: protocols})
}

// TestSecretTargets: the value reaches only the host and the port that it is for, whatever the first line and the Host
// of a request say. Bytes behind a request to upgrade are not lost.
func TestSecretTargets(t *testing.T) {
	p, outside, trust, policy := openHostile(t)
	held := policy.Secrets[0].Placeholder
	for _, c := range []struct{ first, host, want string }{
		{"GET /o", "api.test", "200 OK"}, {"GET /o", "API.test.:443", "200 OK"},
		{"GET //evil.test/o", "api.test", "200 OK"},
		{"GET a:https://evil.test/steal", "api.test", "400 Bad Request"},
		{"GET https://api.test/steal", "api.test", "400 Bad Request"},
		{"GET https://evil.test/steal", "api.test", "421 Misdirected Request"},
		{"OPTIONS *", "api.test", "400 Bad Request"},
		{"GET /steal", "api.test:8443", "421 Misdirected Request"},
		{"GET /steal", "other.test", "421 Misdirected Request"},
		{"CONNECT api.test:443", "api.test:443", "405 Method Not Allowed"},
	} {
		for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
			conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%sAuthorization: %s\r\n\r\n", c.first, c.host, upgrade, held)
			status, in := "103", bufio.NewReader(conn)
			for strings.HasPrefix(status, "103") {
				if answer, err := http.ReadResponse(in, nil); err != nil {
					status = err.Error()
				} else {
					status = answer.Status
				}
			}
			want := c.want
			if upgrade != "" && want == "200 OK" {
				want = "101 Switching Protocols"
			}
			if status != want {
				t.Errorf("%s to %s: %s, want %s", c.first, c.host, status, want)
			}
			conn.Close()
		}
	}
	for line := range strings.SplitSeq(outside.all(), "\n") {
		if line != "api.test "+token {
			t.Errorf("the server saw %q", line)
		}
	}
	conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	_, _ = io.WriteString(conn, "GET /switch HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\nX-Early: bytes\r\n\r\nbytes")
	got, err := io.ReadAll(conn)
	if !strings.HasPrefix(string(got), "HTTP/1.1 101 Switching Protocols\r\n") ||
		!strings.HasSuffix(string(got), "\nbytes") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSecretInLogs: net/http prints nothing of what a host sends without a request, or after an answer.
func TestSecretInLogs(t *testing.T) {
	p, outside, trust, policy := openHostile(t)
	for i, speaks := range []func(net.Conn){
		func(c net.Conn) {
			_, _ = io.WriteString(c, token+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		},
		func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"+token)
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		over := make(chan struct{}, 2)
		server := listen(t, func(c net.Conn) {
			speaks(tls.Server(c, outside.TLS)) // until the gate closes it, after it has printed something
			over <- struct{}{}
		})
		p.world.at("tcp", "93.184.216.40:443", server)
		var printed bytes.Buffer
		log.SetOutput(&printed)
		for _, method := range []string{"HEAD", "GET"} {
			conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
			fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n"+
				"Authorization: %s\r\n\r\n", method, policy.Secrets[0].Placeholder)
			if got, err := io.ReadAll(conn); !bytes.HasPrefix(got, []byte("HTTP/1.1 ")) {
				t.Errorf("%d: %s: %q, %v", i, method, got, err)
			}
			conn.Close()
			<-over
		}
		log.SetOutput(os.Stderr)
		if printed.Len() > 0 {
			t.Errorf("%d: net/http prints %s", i, &printed)
		}
	}
}

// TestSecretHostWithoutTLS: requests without TLS do not reach the port of a host of secrets, whose answers nobody would
// clean. Some servers accept both at one port.
func TestSecretHostWithoutTLS(t *testing.T) {
	p, outside, _, _ := openHostile(t)
	plain := httptest.NewServer(outside)
	t.Cleanup(plain.Close)
	p.world.at("tcp", "93.184.216.40:443", plain.Listener.Addr().String())
	for _, args := range []string{"", "-0 ", "-H 'Host: API.test' "} {
		if got := p.run("curl -sS " + args + "http://api.test:443/all"); !strings.Contains(got, "reset by peer") {
			t.Errorf("%s: %s", args, got)
		}
	}
	if list := p.gate.Refusals(0, 1); len(list) != 1 || list[0].Reason != withoutTLS {
		t.Errorf("%+v", list)
	}
	if got := outside.all(); got != "" {
		t.Errorf("the server saw %q", got)
	}
}

// TestSecretHostInOtherProtocols: at the port of a host of secrets, other protocols than TLS do not pass, in which its
// server could send a value, whether they begin before the host has a secret or after.
func TestSecretHostInOtherProtocols(t *testing.T) {
	policy := allow("api.test:8443", "other.test:8443")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"other.test:8443"}, Value: token}}
	complete(t, &policy)
	p, _, _ := openPlace(t, policy)
	p.world.at("tcp", "93.184.216.40:8443", listen(t, func(c net.Conn) { _, _ = io.Copy(c, c) }))
	if _, err := p.look("ip4", "api.test"); err != nil {
		t.Fatal(err)
	}
	open := p.mustDial("tcp", "93.184.216.40:8443")
	fmt.Fprintln(open, "a")
	if _, err := io.ReadFull(open, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	policy.Secrets[0].Hosts = []string{"api.test:8443"}
	p.setPolicy(policy)
	late := p.mustDial("tcp", "93.184.216.40:8443")
	for _, c := range []net.Conn{open, late} {
		fmt.Fprintln(c, "a")
		if n, err := c.Read(make([]byte, 2)); err == nil {
			t.Errorf("%d bytes passed", n)
		}
	}
}
