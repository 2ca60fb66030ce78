package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// H03: keys in every wrong form get one and the same answer, whatever was asked for.
func TestKeys(t *testing.T) {
	secret := httpd.NewSecret()
	plain, err := httpd.NewKey("ci", secret)
	if err != nil {
		t.Fatal(err)
	}
	other := httpd.NewSecret()
	hashed, err := httpd.NewKey("other", mustKey(t, other).String())
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, engine.Config{}, httpd.Config{Keys: httpd.NewKeyring(plain, hashed)})
	for _, h := range []header{{"Authorization": "Bearer " + secret}, {"authorization": "bearer  " + secret},
		{"X-API-Key": secret}, {"X-API-Key": other}} {
		if res, text := r.do("POST", "/v1/run", bash("true"), h); res.StatusCode != 200 {
			t.Errorf("%v: %s", h, text)
		}
	}
	var bodies []string
	for _, c := range []struct {
		path string
		h    header
	}{
		{"/v1/run", nil},
		{"/v1/run?key=" + secret + "&access_token=" + secret, nil},
		{"/v1/run", header{"Authorization": "Bearer " + secret[:len(secret)-1]}},
		{"/v1/run", header{"Authorization": "Bearer " + strings.ToUpper(secret)}},
		{"/v1/run", header{"Authorization": "Basic " + secret}},
		{"/v1/run", header{"Authorization": secret}},
		{"/v1/run", header{"Authorization": "Bearer " + plain.String()}},
		{"/v1/run", header{"X-API-Key": ""}},
		{"/v1/run", header{"X-API-Key": secret, "Authorization": "Bearer wrong"}},
		{"/v1/run", header{"Cookie": "key=" + secret}},
		{"/metrics", nil}, {"/openapi.json", nil}, {"/nothing", nil},
	} {
		p := r.refused("POST", c.path, bash("true"), c.h, http.StatusUnauthorized)
		p.RequestID = ""
		bodies = append(bodies, jsonOf(p))
		if bodies[0] != bodies[len(bodies)-1] {
			t.Errorf("%v tells more: %s", c, bodies[len(bodies)-1])
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if res, _ := r.do("GET", path, "", nil); res.StatusCode != 200 {
			t.Errorf("GET %s: %s", path, res.Status)
		}
	}
	if log := r.log.String(); strings.Contains(log, secret) || !strings.Contains(log, `"key":"ci"`) {
		t.Error("the log holds a secret, or lacks the name of its key")
	}
	for _, bad := range []string{"", "short", "sha256:", "sha256:00", "sha256:" + strings.Repeat("g", 64), "sha256:" +
		strings.Repeat("0", 66)} {
		if _, err := httpd.NewKey("x", bad); err == nil {
			t.Errorf("a key of %q", bad)
		}
	}
}

func mustKey(t *testing.T, secret string) httpd.Key {
	k, err := httpd.NewKey("x", secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// H07: the server refuses a request of another site's page, and a name that was rebound to this address.
func TestBrowsers(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{Hosts: []string{"box.example"}})
	form := "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name   string
		h      header
		status int // 200 is served
	}{
		{"no browser", header{}, 200},
		{"curl -d", header{"Content-Type": form}, 200},
		{"with a character set", header{"Content-Type": "application/json; charset=utf-8"}, 200},
		{"our own page", header{"Origin": "http://" + r.addr, "Sec-Fetch-Site": "same-origin"}, 200},
		{"our own page with a form", header{"Origin": "http://" + r.addr, "Content-Type": form}, 415},
		{"another site", header{"Origin": "https://evil.example"}, 403},
		{"no site", header{"Origin": "null"}, 403},
		{"another port", header{"Origin": "http://127.0.0.1:1"}, 403},
		{"another site without an Origin", header{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a sibling", header{"Sec-Fetch-Site": "same-site"}, 403},
		{"a browser's form", header{"Sec-Fetch-Mode": "no-cors", "Content-Type": form}, 415},
		{"text", header{"Content-Type": "text/plain"}, 415},
		{"compressed", header{"Content-Encoding": "gzip"}, 415},
		{"a rebound name", header{"Host": "rebind.evil:8080"}, 421},
		{"a rebound name that is its own origin", header{"Host": "rebind.evil", "Origin": "http://rebind.evil"}, 421},
		{"a name like ours", header{"Host": "localhost.evil"}, 421},
		{"another address", header{"Host": "10.0.0.1"}, 421},
		{"localhost", header{"Host": "localhost:99"}, 200},
		{"IPv6", header{"Host": "[::1]:7070"}, 200},
		{"IPv6 without a port", header{"Host": "[::1]"}, 200},
		{"a configured name", header{"Host": "BOX.example:7070"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			if c.status != 200 {
				r.refused("POST", "/v1/run", bash("true"), c.h, c.status)
				return
			}
			if res, text := r.do("POST", "/v1/run", bash("true"), c.h); res.StatusCode != 200 {
				t.Errorf("%s: %s", res.Status, text)
			}
		})
	}
	r.refused("GET", "/v1/capabilities", "", header{"Origin": "https://evil.example"}, 403)
	if _, text := r.do("GET", "/v1/capabilities", "", header{"Host": "box"}); !strings.Contains(text, "--host NAME") {
		t.Errorf("the problem does not name the flag that adds a name: %s", text)
	}
}

func TestCheckListen(t *testing.T) {
	key := mustKey(t, httpd.NewSecret())
	for _, c := range []struct {
		addr string
		bare bool // allowed without a key
	}{
		{"localhost:7070", true}, {"127.0.0.1:0", true}, {"127.9.9.9:1", true}, {"[::1]:7070",
			true}, {"unix:/run/fumehood.sock", true}, {"/run/fumehood.sock", false},
		{":7070", false}, {"0.0.0.0:7070", false}, {"[::]:7070", false}, {"10.0.0.1:80", false}, {"example.org:80", false},
		{"localhost.evil:80", false}, {"[::ffff:10.0.0.1]:80", false},
	} {
		if err := httpd.CheckListen(c.addr, nil); (err == nil) != c.bare {
			t.Errorf("%s: %v", c.addr, err)
		}
		if err := httpd.CheckListen(c.addr, httpd.NewKeyring(key)); err != nil {
			t.Errorf("%s with a key: %v", c.addr, err)
		}
	}
	if err := httpd.CheckListen("7070", nil); err == nil {
		t.Error("a port alone is no address")
	}
}

// raw sends bytes and returns all that comes back.
func (r *rig) raw(request string) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(stepTimeout))
	io.WriteString(conn, request)
	conn.(*net.TCPConn).CloseWrite()
	out, _ := io.ReadAll(conn)
	return string(out)
}

// H04: a request that two parsers could read in two ways is refused whole, and a smuggled request never runs.
func TestSmuggling(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	body := bash("true")
	smuggled := fmt.Sprintf("POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	const start = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\n"
	for name, request := range map[string]string{
		"two lengths":         start + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"a length and chunks": start + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"an odd encoding":     start + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"chunked twice": start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			smuggled,
		"a signed length":       start + "Content-Length: +0\r\n\r\n" + smuggled,
		"a space before ':'":    start + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"a bad chunk":           start + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n" + smuggled,
		"two hosts":             start + "Host: evil\r\n\r\n" + smuggled,
		"no host":               "POST /v1/run HTTP/1.1\r\n\r\n" + smuggled,
		"an upgrade to HTTP/2":  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
		"headers beyond bounds": start + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 100) + "\r\n" + smuggled,
	} {
		out := r.raw(request)
		if strings.Contains(out, "HTTP/1.1 200") {
			t.Errorf("%s: %s", name, short(out))
		}
	}
	if n := r.engine.Stats().Ended; len(n) != 0 {
		t.Errorf("a smuggled request ran: %v", n)
	}
	if out := r.raw(smuggled); !strings.Contains(out, "HTTP/1.1 200") && !strings.Contains(r.log.String(),
		`"status":"canceled"`) {
		t.Errorf("the same request alone is not served: %s", out) // canceled is right too: CloseWrite looks like going away
	}
}

// TestHeaderLines: a request has a bounded number of headers, each of which takes memory while it is served.
func TestHeaderLines(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	for lines, want := range map[int]string{499: "HTTP/1.1 200", 501: "HTTP/1.1 431"} {
		out := r.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("x:\r\n", lines) + "\r\n")
		if !strings.HasPrefix(out, want) {
			t.Errorf("%d headers: %s", lines, short(out))
		}
	}
}

// TestOptions: a request for the options of the server, which package net/http would answer, is checked as any other.
func TestOptions(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	if out := r.raw("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(out, "HTTP/1.1 404") {
		t.Error(short(out))
	}
}

// TestProblemsAreShort: a problem quotes only the start of a long text of the request.
func TestProblemsAreShort(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	long := strings.Repeat("x", 1<<20)
	for _, body := range []object{
		{long: 1},
		{"env": object{long: 1}}, {"env": object{long: "x"}}, {"metadata": object{long: "x"}},
		{"env": object{long + "=": "x"}}, {"env": object{long + " ": "x"}},
		{"language": long}, {"backend": long}, {"image": long}, {"include": []string{long}}, {"allow_unenforced": []string{long}}, {"network": object{"mode": long}},
		{"return_files": []string{long}}, {"return_files": []string{"/" +
			long}}, {"args": []string{long}}, {"command": []string{long}},
		{"files": []object{{"path": long, "content": ""}}}, {"files": []object{{"path": long}}},
	} {
		if body["command"] == nil {
			body["code"] = "true"
		}
		if body["language"] == nil {
			body["language"] = "bash"
		}
		res, text := r.do("POST", "/v1/run", jsonOf(body), nil)
		if res.StatusCode < 400 || res.StatusCode >= 500 || len(text) > 4<<10 {
			t.Errorf("%s: %s, %d bytes: %s", short(strings.ReplaceAll(jsonOf(body), long, "...")), res.Status, len(text),
				short(text))
		}
	}
}
