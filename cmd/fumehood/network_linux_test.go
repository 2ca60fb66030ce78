package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// outside is an internet of one web server, which answers under every address.
type outside struct {
	*httptest.Server
	asked   atomic.Int64
	address string // of all names
}

func newOutside(t *testing.T) *outside {
	o := &outside{address: "93.184.215.14"}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		fmt.Fprintf(w, "%s%s", r.Host, r.URL.Path)
	}))
	t.Cleanup(o.Close)
	return o
}

// gate dials the server whatever the address, and resolves names below .test.
func (o *outside) gate() sandbox.Gate {
	return &egress.Host{Options: egress.Options{
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, o.Listener.Addr().String())
		},
		Resolve: func(_ context.Context, _, name string) ([]netip.Addr, error) {
			if !strings.HasSuffix(name, ".test.") {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
			return []netip.Addr{netip.MustParseAddr(o.address)}, nil
		},
	}}
}

// isNetworkReady skips a test if sandboxes cannot have a network.
func isNetworkReady(t *testing.T) {
	isNativeReady(t)
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("sandboxes have no network here: %v", err)
	}
	tun.Close()
}

const fetch = "import urllib.request; print(urllib.request.urlopen('http://%s.test/x').read().decode())"

// TestNetworkOfRun: a run reaches allowed hosts, and a hint reports refused ones.
func TestNetworkOfRun(t *testing.T) {
	isNetworkReady(t)
	o := newOutside(t)
	run := func(code int, name string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr, m.Gate = &out, &errs, o.gate()
		args := []string{"run", "--backend", "native", "--allow-unenforced", "memory", "--allow", "api.test:80", "-c",
			fmt.Sprintf(fetch, name)}
		if got := m.Run(context.Background(), args); got != code {
			t.Errorf("exit code %d, not %d\n%s%s", got, code, &out, &errs)
		}
		return out.String(), errs.String()
	}
	if out, errs := run(0, "api"); out != "api.test/x\n" || errs != "" {
		t.Errorf("%q, %q", out, errs)
	}
	if _, errs := run(1, "other"); !strings.Contains(errs,
		"hint: other.test was refused by the network policy; allow it with --allow other.test.") {
		t.Errorf("%s", errs)
	}
	if n := o.asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestHostOfRun: a run reaches a loopback port of the host only if its user lists it, and for requests its
// operator.
func TestHostOfRun(t *testing.T) {
	isNetworkReady(t)
	o := newOutside(t)
	_, port, _ := strings.Cut(o.Listener.Addr().String(), ":")
	code := "import urllib.request; print(urllib.request.urlopen('http://host:" + port + "/x').read().decode())"
	run := func(want int, network ...string) string {
		t.Helper()
		var out bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr = &out, &out
		args := append([]string{"run", "--backend", "native", "--allow-unenforced", "memory", "-c", code}, network...)
		if got := m.Run(context.Background(), args); got != want {
			t.Errorf("exit code %d, not %d\n%s", got, want, &out)
		}
		return out.String()
	}
	if out := run(0, "--allow", "host:"+port); out != "host:"+port+"/x\n" {
		t.Errorf("%q", out)
	}
	if out := run(1, "--network", "full"); !strings.Contains(out,
		"hint: host was refused by the network policy; allow it with --allow host:PORT.") {
		t.Errorf("%s", out)
	}
	if out := run(125, "--allow", "127.0.0.1:"+port); !strings.Contains(out, "fix: write it as a rule: --allow host:"+
		port+"\n") {
		t.Errorf("%s", out)
	}
	request := fmt.Sprintf(`{"language": "python", "code": %q, "network": {"allow": ["host:%s"]}}`, code, port)
	for rule, want := range map[string]int{"public": 400, "public,host:" + port: 200} {
		s := startServerWith(t, func(*Main) {}, "--backend", "native", "--allow-unenforced", "memory",
			"--network-allow", rule)
		if status, body := s.post(t, "/v1/run", request); status != want || want == 200 &&
			body["stdout"] != "host:"+port+"/x\n" {
			t.Errorf("%s: %d %v", rule, status, body)
		}
	}
	if n := o.asked.Load(); n != 2 {
		t.Errorf("the host was asked %d times", n)
	}
}

// TestNetworkOfSandbox: the rules of a living sandbox change while it runs, and each attempt is recorded.
func TestNetworkOfSandbox(t *testing.T) {
	isNetworkReady(t)
	o := newOutside(t)
	s := startServerWith(t, func(m *Main) { m.Gate = o.gate() }, "--backend", "native", "--allow-unenforced", "memory")
	c := &commands{t, s.url}
	c.run(0, "", "create", "--name", "a", "--allow", "api.test")
	if _, errs := c.run(0, "", "create", "--name", "a", "--network", "none"); !strings.Contains(errs, "not none") {
		t.Errorf("an existing sandbox has a network, silently: %q", errs)
	}
	if out, _ := c.run(0, "", "run", "--in", "a", "-c", fmt.Sprintf(fetch, "api")); out != "api.test/x\n" {
		t.Errorf("%q", out)
	}
	if status, body := s.send(t, http.MethodPatch, "/v1/sandboxes/a",
		`{"network": {"allow": ["other.test"]}}`); status != 200 {
		t.Fatalf("%d %v", status, body)
	}
	if _, errs := c.run(1, "", "run", "--in", "a", "-c", fmt.Sprintf(fetch, "api")); !strings.Contains(errs,
		"policy; make a sandbox with fumehood create --allow api.test.") {
		t.Errorf("%s", errs)
	}
	if out, _ := c.run(0, "", "run", "--in", "a", "-c", fmt.Sprintf(fetch, "other")); out != "other.test/x\n" {
		t.Errorf("%q", out)
	}
	log := ""
	for !strings.Contains(log, "allowed tcp other.test:80") { // until it is over, a connection is open
		log, _ = c.run(0, "", "network", "a")
	}
	for _, want := range []string{"allowed http api.test:80 GET /x 200", "refused dns api.test",
		"allowed tcp other.test:80"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if out, _ := c.run(0, "", "network", "--summary", "a"); !strings.Contains(out, "other.test") ||
		!strings.Contains(out, "GET 2") {
		t.Errorf("%s", out)
	}
	if n := o.asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
	metrics, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(metrics.Body)
	metrics.Body.Close()
	for _, decision := range []string{"allowed", "refused"} {
		if !regexp.MustCompile(`fumehood_engine_network_attempts_total\{decision="` + decision +
			`"\} [1-9]`).Match(text) {
			t.Errorf("no attempts that were %s: %v", decision, err)
		}
	}
	c.run(0, "", "rm", "a")
}
