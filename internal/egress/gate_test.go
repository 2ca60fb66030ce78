//go:build linux

package egress

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		{"head -c 3000000 /dev/zero | curl -s -S --data-binary @- http://site.example/up", "POST site.example /up 3000000"},
		{`/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("http://site.example/p").read().decode())'`, "GET site.example /p 0"},
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
		for _, a := range p.gate.Log().Last(100) {
			t.Logf("%+v", a)
		}
	}
}
