package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const secretValue = "canary-7f31c2-value"

// keeper is an internet of one HTTPS server, which records requests with the secret.
type keeper struct {
	*httptest.Server
	knew, asked atomic.Int64
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the program may end before the gate has read its body
		k.asked.Add(1)
		if strings.Contains(r.Header.Get("Authorization"), secretValue) {
			k.knew.Add(1)
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.Header.Get("Authorization"))
	}))
	k.Config.ErrorLog = log.New(io.Discard, "", 0)
	k.EnableHTTP2 = true
	k.StartTLS() // its certificate is for example.com and names below it
	t.Cleanup(k.Close)
	return k
}

func (k *keeper) gate() sandbox.Gate {
	roots := x509.NewCertPool()
	roots.AddCert(k.Certificate())
	return &egress.Host{Options: egress.Options{
		Roots: roots,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, k.Listener.Addr().String())
		},
		Resolve: func(_ context.Context, network, _ string) ([]netip.Addr, error) {
			if network == "ip6" {
				return nil, &net.DNSError{IsNotFound: true}
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
	}}
}

// askAll sends requests with every program of the root, without settings, and looks for the value.
const askAll = `
h="Authorization: Bearer $API_TOKEN"
ask() { echo "$1: $(shift; timeout 60 "$@" 2>&1 | tail -1)"; }
ask curl curl -sS -H "$h" https://example.com/
ask curl11 curl -sS --http1.1 -H "$h" https://example.com/
ask bare env -i API_TOKEN="$API_TOKEN" PATH="$PATH" curl -sS -H "$h" https://example.com/
ask python python3 -c 'import os, urllib.request as u
print(u.urlopen(u.Request("https://example.com/", headers={"Authorization": "Bearer " + os.environ["API_TOKEN"]})).read().decode())'
ask node node -e 'fetch("https://example.com/", {headers: {Authorization: "Bearer " + process.env.API_TOKEN}}).then(r => r.text()).then(console.log)'
ask elsewhere curl -sSk -H "$h" https://www.example.com/
echo "$API_TOKEN" | grep -c '^fumehood_placeholder_[0-9a-f]*$'
env | grep -c 'canary[-]'; grep -l 'canary[-]' /proc/*/environ /proc/*/cmdline 2>/dev/null | wc -l
`

// TestSecretOfRun: code uses a secret only for its host and never has the value; nor have answers, logs and the command
// line.
func TestSecretOfRun(t *testing.T) {
	isNetworkReady(t)
	for _, backend := range []string{"native", "gvisor"} {
		t.Run(backend, func(t *testing.T) {
			k := newKeeper(t)
			var out, errs bytes.Buffer
			m := testApp(t).Main
			m.Stdout, m.Stderr, m.Gate = &out, &errs, k.gate()
			environ := m.LookupEnv
			m.LookupEnv = func(name string) (string, bool) {
				if name == "API_TOKEN" {
					return secretValue, true
				}
				return environ(name)
			}
			code := m.Run(context.Background(), []string{"run", "--verbose", "--backend", backend, "--allow-unenforced",
				"memory", "--secret", "API_TOKEN@example.com", "--allow", "www.example.com",
				"-l", "bash", "-c", askAll})
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			answer := "GET Bearer fumehood_placeholder_"
			for _, want := range []string{"curl: " + answer, "curl11: " + answer, "bare: " + answer, "python: " +
				answer,
				"node: " + answer, "elsewhere: " + answer, "\n1\n0\n0\n"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q", want)
				}
			}
			if strings.Contains(out.String()+errs.String(), secretValue) {
				t.Error("the value came out")
			}
			if knew, asked := k.knew.Load(), k.asked.Load(); knew != 5 || asked != 6 {
				t.Errorf("the server was asked %d times, and %d times with the value", asked, knew)
			}
			if t.Failed() {
				t.Logf("%s\n%s", &out, &errs)
			}
		})
	}
}

// TestPlaceholderSent: a hint reports a placeholder in the body of a request, and the flag that permits it there.
func TestPlaceholderSent(t *testing.T) {
	isNetworkReady(t)
	for secret, hint := range map[string]string{
		"API_TOKEN@example.com": "The placeholder of API_TOKEN was sent in the body of a request to example.com and " +
			"stayed one: the value goes only into headers. To send it there, add it: --secret " +
			"API_TOKEN@example.com:body.",
		"API_TOKEN@example.com:body": "",
	} {
		var errs bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr, m.Gate = io.Discard, &errs, newKeeper(t).gate()
		environ := m.LookupEnv
		m.LookupEnv = func(name string) (string, bool) {
			if name == "API_TOKEN" {
				return secretValue, true
			}
			return environ(name)
		}
		code := m.Run(context.Background(), []string{"run", "--backend", "native", "--allow-unenforced", "memory",
			"--secret", secret, "-l", "bash", "-c", `curl -sS -d "k=$API_TOKEN" https://example.com/`})
		got := errs.String()
		if code != 0 || !strings.Contains(got, hint) || hint == "" && strings.Contains(got, "hint") {
			t.Errorf("%s: %d, %s", secret, code, got)
		}
	}
}

const useToken = "import os, urllib.request as u\nprint(u.urlopen(u.Request('https://example.com/x', headers={'X-Key': os.environ['API_TOKEN'], 'Authorization': 'Bearer ' + os.environ['API_TOKEN']})).read().decode())"

// TestSecretOfSandbox: a value is only in memory. After a restart the sandbox still has its placeholder, and its owner
// sets the value again.
func TestSecretOfSandbox(t *testing.T) {
	isNetworkReady(t)
	k, state := newKeeper(t), t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil { // a test may have no umask
		t.Fatal(err)
	}
	start := func() *served {
		return startServerWith(t, func(m *Main) { m.Gate = k.gate() }, "--backend", "native", "--allow-unenforced",
			"memory", "--state-dir", state)
	}
	s := start()
	status, body := s.post(t, "/v1/sandboxes",
		`{"name": "a", "network": {"secrets": [{"name": "API_TOKEN", "hosts": ["example.com"], "value": "`+secretValue+
			`"}]}}`)
	if status != 201 || strings.Contains(fmt.Sprint(body), secretValue) || !strings.Contains(fmt.Sprint(body),
		"hosts:[example.com] name:API_TOKEN") {
		t.Fatalf("%d %v", status, body)
	}
	run := func(code int, want string) {
		t.Helper()
		c := &commands{t, s.url}
		out, errs := c.run(code, "", "run", "--in", "a", "-c", useToken)
		if !strings.Contains(out+errs, want) || strings.Contains(out+errs, secretValue) {
			t.Errorf("no %q in %s%s", want, out, errs)
		}
	}
	run(0, "GET Bearer fumehood_placeholder_")
	c := &commands{t, s.url}
	if log, _ := c.run(0, "", "network", "a"); !strings.Contains(log, "allowed https example.com:443 GET /x 200") ||
		!strings.Contains(log, "with API_TOKEN") || strings.Contains(log, secretValue) {
		t.Errorf("%s", log)
	}
	if status, body := s.send(t, http.MethodPatch, "/v1/sandboxes/a",
		`{"network": {"mode": "restricted", "secrets": [{"name": "OTHER", "hosts": ["example.com"], "value": "`+
			secretValue+
			`"}]}}`); status != 400 {
		t.Errorf("%d %v", status, body)
	}
	for _, more := range []string{`"hosts": ["evil.example.com"]`,
		`"hosts": ["example.com"], "headers": ["X-Goog-Meta-K"]`} {
		if status, body := s.send(t, http.MethodPatch, "/v1/sandboxes/a", `{"network": {"mode": "restricted",
			"secrets": [{"name": "API_TOKEN", `+more+`}]}}`); status != 400 || !strings.Contains(fmt.Sprint(body),
			"give the value of the secret again") {
			t.Errorf("a secret goes to more places without its value: %d %v", status, body)
		}
	}
	s.stop(t)
	s.exit <- 0 // for the end of the test
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(secretValue)) {
				t.Errorf("%s holds the value", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s = start()
	run(1, "HTTP Error 403")
	if status, body := s.send(t, http.MethodPatch, "/v1/sandboxes/a",
		`{"network": {"mode": "restricted", "secrets": [{"name": "API_TOKEN", "hosts": ["*.example.com", "example.com"], "value": "`+secretValue+`"}]}}`); status != 200 {
		t.Fatalf("%d %v", status, body)
	}
	run(0, "GET Bearer fumehood_placeholder_")
	if knew, asked := k.knew.Load(), k.asked.Load(); knew != 2 || asked != 2 {
		t.Errorf("the server was asked %d times, and %d times with the value", asked, knew)
	}
	c = &commands{t, s.url}
	for _, flag := range []string{"--json", "--summary"} { // also of before the restart
		log, _ := c.run(0, "", "network", flag, "a")
		if n := strings.Count(log, `"path": "/x"`); flag == "--json" && n != 3 || flag == "--summary" &&
			!strings.Contains(log, "GET 3") || strings.Contains(log, secretValue) {
			t.Errorf("%s", log)
		}
	}
	c.run(0, "", "rm", "a")
	if found, _ := filepath.Glob(filepath.Join(state, "*", "*", "network*")); len(found) > 0 {
		t.Errorf("%q outlived the sandbox", found)
	}
}
