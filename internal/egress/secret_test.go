//go:build linux

package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const token = "ghp_R3alValue0123456789"

// vault is a server of HTTPS for some names, which keeps the headers that it is sent and echoes them.
type vault struct {
	TLS *tls.Config // with certificates for all names

	knows map[string]http.HandlerFunc // by path

	mu   sync.Mutex
	seen []string
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	v.mu.Lock()
	v.seen = append(v.seen, r.Host+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+
		r.Header.Get("X-Goog-Meta-K")+string(body))
	v.mu.Unlock()
	if known := v.knows[r.URL.Path]; known != nil {
		known(w, r)
		return
	}
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	if upgrade := r.Header.Get("Upgrade"); upgrade != "" {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"+
				"X-Echo: %s\r\n\r\n", upgrade, r.Header.Get("Authorization"))
			c.Close()
		}
		return
	}
	w.Header().Set("Trailer", "X-Late")
	w.WriteHeader(http.StatusEarlyHints)
	defer w.Header().Set("X-Late", r.Header.Get("Authorization"))
	fmt.Fprintf(w, "%s %s %s auth=%s body=%d", r.Proto, r.Method, r.RequestURI, r.Header.Get("Authorization"),
		len(body))
}

func (v *vault) all() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.seen, "\n")
}

// openPlace is a place whose gate ends the TLS of connections to api.test, with a file of what is trusted inside.
func openPlace(t *testing.T, p sandbox.NetworkPolicy, more ...func(*Host, *vault)) (at *place, outside *vault,
	trust string) {
	t.Helper()
	if err := (&Host{}).Complete(&p); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	public, err := intercept.NewAuthority() // that of the internet
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(public.Certificate)
	signer, err := intercept.NewSigner(public)
	if err != nil {
		t.Fatal(err)
	}
	outside = &vault{TLS: &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return signer.Certificate(h.ServerName)
	}}}
	at = newPlaceOf(t, p, func(h *Host) {
		h.Options.Roots = roots
		for _, f := range more {
			f(h, outside)
		}
	})
	server := httptest.NewUnstartedServer(outside)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = outside.TLS.Clone()
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(outside)
	t.Cleanup(plain.Close)
	for i, name := range []string{"api.test", "other.test"} {
		a := fmt.Sprintf("93.184.216.%d", 40+i)
		at.world.name(name, a)
		at.world.at("tcp", net.JoinHostPort(a, "443"), server.Listener.Addr().String())
		at.world.at("tcp", net.JoinHostPort(a, "80"), plain.Listener.Addr().String())
	}
	trust = filepath.Join(t.TempDir(), "trust.pem")
	if err := os.WriteFile(trust, append(append([]byte{}, public.Certificate...), p.Authority.Certificate...),
		0o644); err != nil {
		t.Fatal(err)
	}
	return at, outside, trust
}

// TestSecret: a value reaches the host that it is for, in a header, over HTTP/1.1 and HTTP/2, and nobody else; nor does
// it come back.
func TestSecret(t *testing.T) {
	policy := allow("other.test", "api.test:80")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	complete(t, &policy)
	held := policy.Secrets[0].Placeholder
	p, outside, trust := openPlace(t, policy)
	curl := "curl -sS --cacert " + trust + " "
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + token))
	for _, c := range []struct{ args, want, seen string }{
		{"--http1.1 -H 'Authorization: Bearer " + held + "' 'https://api.test/a%2Fb?x=;y'",
			"HTTP/2.0 GET /a%2Fb?x=;y auth=Bearer " + held + " body=0", "api.test Bearer " + token},
		{"--http2 -H 'Authorization: Bearer " + held + "' -d k=" + held + " https://api.test/p",
			"HTTP/2.0 POST /p auth=Bearer " + held + " body=" + strconv.Itoa(len("k="+held)),
			"api.test Bearer " + token + "k=" + held},
		{"-u user:" + held + " https://api.test/", "HTTP/2.0 GET / auth=Basic dXNlcj" + held + "== body=0",
			"api.test Basic " + basic},
		{"-H 'X-Api-Key: a" + held + "b' https://api.test/", "HTTP/2.0 GET / auth= body=0", "api.test a" + token + "b"},
		{"-H 'X-Goog-Meta-K: " + held + "' https://api.test/", "HTTP/2.0 GET / auth= body=0", "api.test " + held},
		{"-H 'Authorization: Bearer " + held + "' https://other.test/o",
			"HTTP/2.0 GET /o auth=Bearer " + held + " body=0",
			"other.test Bearer " + held},
		{"-H 'Authorization: Bearer " + held + "' http://api.test/plain",
			"HTTP/1.1 GET /plain auth=Bearer " + held + " body=0", "api.test Bearer " + held},
		{"-H 'Authorization: Bearer " + held + "' -H 'Host: other.test' https://api.test/",
			"fumehood: api.test:443: the request is for another host than the connection", ""},
	} {
		outside.mu.Lock()
		outside.seen = nil
		outside.mu.Unlock()
		if got := p.run(curl + c.args); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
		if got := outside.all(); got != c.seen {
			t.Errorf("%s: the server saw %q, want %q", c.args, got, c.seen)
		}
	}
	put := p.logged("a request with the value", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolHTTPS &&
			len(a.Secrets) == 1
	})
	if put.Method != "GET" || put.Path != "/a%2Fb?x=;y" || put.Status != 200 || put.Name != "api.test" ||
		put.Secrets[0] != "TOKEN" || !put.Allowed {
		t.Errorf("%+v", put)
	}
	p.logged("a misplaced placeholder", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolHTTP && len(a.Misplaced) == 1 && a.Path == "/plain"
	})
	for version, heads := range map[string]int{"1.1": 2, "2": 1} { // in HTTP/2, the gate drops interim answers
		args := "-i --http" + version + " -H 'Authorization: Bearer " + held + "' https://api.test/e"
		got := strings.ToLower(p.run(curl + args))
		if strings.Contains(got, strings.ToLower(token)) ||
			strings.Contains(got, " 103 ") != (heads == 2) ||
			strings.Count(got, "x-echo: bearer "+strings.ToLower(held)) != heads ||
			!strings.Contains(got, "x-late: bearer "+strings.ToLower(held)) {
			t.Errorf("it came back, or not as it should: %s", got)
		}
	}
	got := p.run(curl + "-i --http1.1 -H 'Expect: 100-continue' -d x https://api.test/e")
	if !strings.Contains(got, " 100 ") || strings.Contains(got, " 103 ") || !strings.Contains(got, "body=1") {
		t.Errorf("interim answers of a request that waits for another one: %s", got)
	}
	got = p.run(curl + "-i --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' " +
		"-H 'Authorization: Bearer " + held + "' https://api.test/up")
	if strings.Contains(got, token) || !strings.Contains(got, " 101 ") || !strings.Contains(got, held) {
		t.Errorf("the answer to an upgrade: %s", got)
	}
}

// TestDialAgain: further dials of an intercepted connection have a deadline, count as open connections, and end with
// the gate.
func TestDialAgain(t *testing.T) {
	g := &gate{Log: &Log{}, meter: newMeter(newBudget(Limits{}), "", 1000)}
	compiled, err := rules.Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	if err != nil {
		t.Fatal(err)
	}
	g.rules.Store(compiled)
	g.options.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > dialTimeout || g.meter.open != 1 {
			t.Errorf("%v, %v; %d connections are open", end, ok, g.meter.open)
		}
		return nil, os.ErrDeadlineExceeded
	}
	c := &conn{flow: flow{gate: g}}
	if _, err := c.dialAgain(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || g.meter.open != 0 {
		t.Errorf("%v; %d connections are open", err, g.meter.open)
	}
	g.active.closed = true
	if _, err := c.dialAgain(t.Context()); !errors.Is(err, errReset) {
		t.Errorf("after the end of the gate: %v", err)
	}
}
