package httpapi_test

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

//go:embed testdata/program.py
var program string

// received is a request as the program received it.
type received struct {
	Method, Path string
	Body         int
	Headers      [][2]string
}

func (t *received) get(name string) (values []string) {
	for _, h := range t.Headers {
		if strings.EqualFold(h[0], name) {
			values = append(values, h[1])
		}
	}
	return values
}

const ports = "/v1/sandboxes/web/ports/"

// newProgram starts a server with a sandbox in which the program listens on port 8080.
func newProgram(t *testing.T, h httpd.Config, key header) *rig {
	r := newRig(t, engine.Config{}, h)
	ok := func(status int, path string, body any) string {
		t.Helper()
		res, text := r.do("POST", path, jsonOf(body), key)
		if res.StatusCode != status {
			t.Fatalf("%s: %s: %s", path, res.Status, text)
		}
		return text
	}
	ok(201, "/v1/sandboxes", object{"name": "web"})
	ok(202, "/v1/sandboxes/web/run", object{"entry": "program.py", "files": []object{{"path": "program.py",
		"content": program}}, "background": true,
		"args": []string{"0.0.0.0", "8080"}, "limits": object{"timeout_s": 2 * stepTimeout.Seconds()}})
	eventually(t, "the program listens", func() bool {
		res, text := r.do("GET", ports+"8080/", "", key)
		if res.StatusCode != 200 && (res.StatusCode != 502 || !strings.Contains(text, "nothing listens there")) {
			t.Fatal(res.Status, text)
		}
		return res.StatusCode == 200
	})
	return r
}

// open sends bytes as they are and returns the connection.
func (r *rig) open(text string) (*net.TCPConn, *bufio.Reader) {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(stepTimeout))
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	return conn.(*net.TCPConn), bufio.NewReader(conn)
}

// try is do for a request that may fail.
func (r *rig) try(method, path string) (*http.Response, string, error) {
	res, err := r.ask(method, path, "", nil)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// TestPorts: a request reaches the program in the sandbox as it was sent, without what belongs to the server.
func TestPorts(t *testing.T) {
	r := newProgram(t, httpd.Config{}, nil)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
		got := parse[received](t, r.ok(200, method, ports+"8080/a/b?c=d", "12345"))
		if got.Method != method || got.Path != "/a/b?c=d" || got.Body != 5 {
			t.Errorf("%+v", got)
		}
	}
	for _, path := range []string{"/", "/a//b/", "/a%2Fb%20c", "/../../../../../run", "/%2e%2e/x", "/?", "/?a=b;c&%zz",
		"/é"} {
		_, in := r.open("GET " + ports + "8080" + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		want := strings.ReplaceAll(path, "é", "%C3%A9")
		if got := parse[received](t, string(text)); res.Header.Get("Fumehood-Port") != "8080" || got.Path != want {
			t.Errorf("%s: the program was asked for %s", path, got.Path)
		}
	}
	_, text := r.do("GET", ports+"8080/x", "", header{"Authorization": "Bearer x", "Cookie": "session=1",
		"X-Forwarded-For": "1.2.3.4", "X-Forwarded-User": "root",
		"Referer": "http://" + r.addr + "/", "Origin": "http://" + r.addr, "X-Own": "kept"})
	got := parse[received](t, text)
	for name, want := range map[string]string{"Authorization": "", "Cookie": "", "Referer": "", "X-Forwarded-For": "",
		"X-Forwarded-User":   "",
		"X-Forwarded-Prefix": ports + "8080", "Host": "localhost:8080", "Origin": "http://localhost:8080", "X-Own": "kept"} {
		if values := got.get(name); strings.Join(values, "|") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	for path, status := range map[string]int{ports + "8081/": 502, ports + "0/": 400, ports + "65536/": 400, ports +
		"x/": 400,
		"/v1/sandboxes/none/ports/8080/": 404, ports + "8080": 426, ports + "8080/odd": 502} {
		r.refused("GET", path, "", nil, status)
	}
	if p := r.refused("GET", ports+"8081/", "", nil, 502); !strings.Contains(p.Hint, "listens on port 8081 of 127.0.0.1") {
		t.Errorf("%+v", p)
	}
	p := r.refused("GET", ports+"8080/odd", "", nil, 502)
	if !strings.Contains(p.Hint, "with Upgrade: tcp opens a tunnel") {
		t.Errorf("%+v", p)
	}
	r.refused("TRACE", ports+"8080/", "", nil, 405)
	r.refused("GET", ports+"8080/", "", header{"Origin": "http://elsewhere.example"}, 403)
	r.refused("GET", ports+"8080/", "", header{"Origin": "null"}, 403)
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"other"}`)
	if a := parse[object](t, r.ok(200, "POST", "/v1/sandboxes/other/run",
		jsonOf(object{"code": "import socket\ntry: socket.create_connection(('127.0.0.1', 8080))\n" +
			"except OSError as e: print(e.errno)"}))); a["stdout"] != "111\n" {
		t.Errorf("another sandbox: %v", a)
	}
	r.refused("GET", "/v1/sandboxes/other/ports/8080/", "", nil, 502)
	for _, want := range []string{`fumehood_http_requests_total{method="GET",route="/v1/sandboxes/{id}/ports/{port}/{path...}",status="2xx"}`,
		"fumehood_engine_port_connections 0\n", "fumehood_http_requests_in_flight 1\n"} {
		eventually(t, want, func() bool { return strings.Contains(r.ok(200, "GET", "/metrics", ""), want) })
	}
}

// TestPortsKey: requests need the key of the sandbox's owner, which the program never sees.
func TestPortsKey(t *testing.T) {
	var keys []httpd.Key
	secrets := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		secrets[name] = httpd.NewSecret()
		key, err := httpd.NewKey(name, secrets[name])
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	ann := header{"Authorization": "Bearer " + secrets["ann"]}
	r := newProgram(t, httpd.Config{Keys: httpd.NewKeyring(keys...)}, ann)
	r.refused("GET", ports+"8080/", "", nil, 401)
	r.refused("GET", ports+"8080/", "", header{"X-API-Key": secrets["bob"]}, 404)
	for _, h := range []header{ann, {"X-API-Key": secrets["ann"]}} {
		if _, text := r.do("GET", ports+"8080/", "", h); strings.Contains(text, secrets["ann"]) || !strings.Contains(text,
			"X-Forwarded-Prefix") {
			t.Errorf("%s", text)
		}
	}
}

// TestPortsHostile: no answer of the program acts in the name of the server.
func TestPortsHostile(t *testing.T) {
	r := newProgram(t, httpd.Config{}, nil)
	more := []string{"X-Accel-Redirect", "X-Accel-Buffering", "X-Accel-Expires", "X-Sendfile", "X-Lighttpd-Send-File",
		"X-Reproxy-Url", "Surrogate-Control", "Cdn-Cache-Control", "Timing-Allow-Origin", "Accept-Ch", "Critical-Ch",
		"Set-Login", "Activate-Storage-Access", "Fumehood-Run-Id", "Fumehood-Location", "Use-As-Dictionary", "X-Own"}
	_, in := r.open("GET " + ports + "8080/hostile HTTP/1.1\r\nHost: localhost\r\nX-More: " + strings.Join(more, " ") +
		"\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%+v, %v", res, err)
	}
	for name, want := range map[string]string{"Set-Cookie": "", "Access-Control-Allow-Origin": "",
		"Access-Control-Allow-Credentials": "",
		"Service-Worker-Allowed":           "", "Www-Authenticate": "", "Clear-Site-Data": "", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "sandbox", "Fumehood-Port": "8080", "Etag": `"kept"`, "Connection": ""} {
		if got := strings.Join(res.Header.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range more {
		if got := res.Header.Values(name); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := res.Header.Values("X-Request-Id"); len(got) != 1 || got[0] == "forged" {
		t.Errorf("request id: %q", got)
	}
	for to, want := range map[string]string{
		"/login?a=b#c": ports + "8080/login?a=b#c", "next": ports + "8080/next", "http://localhost:8080": ports + "8080/",
		"http://127.0.0.1:8080/a%2Fb": ports + "8080/a%2Fb", "../../../../run": ports +
			"8080/run", "/..//../v1/run": ports + "8080/v1/run",
		"http://" + r.addr + "/v1/run": "", "//elsewhere.example/": "", "https://elsewhere.example/": "", "/%2e%2e/%2e%2e/run": "", "/.%2E/x": "",
		"javascript:alert(1)": "", "http://u:p@localhost:8080/": "", "http://localhost:7070/": "",
	} {
		h := header{"X-To": to}
		req, err := http.NewRequest("POST", "http://"+r.addr+ports+"8080/redirect", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-To", h["X-To"])
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Location"); res.StatusCode != 307 || got != want {
			t.Errorf("%s: to %q, want %q", to, got, want)
		}
		if got := res.Header.Get("Fumehood-Location"); want == "" && got != to || want != "" && got != "" {
			t.Errorf("%s: out of the program to %q", to, got)
		}
	}
	res, text, err := r.try("GET", ports+"8080/trailers")
	want := http.Header{"Digest": {"kept"}, "Server-Timing": {"kept"}}
	if err != nil || text != "ok" || !reflect.DeepEqual(res.Trailer, want) {
		t.Errorf("%q, trailers %v, %v", text, res.Trailer, err)
	}
	if res, text, err := r.try("GET", ports+"8080/events"); err != nil || text != "data: 1\n\n" ||
		strings.Join(res.Header.Values("X-Accel-Buffering"), "|") != "no" {
		t.Errorf("events: %q, %v, %v", text, res.Header, err)
	}
	if res, text := r.do("GET", ports+"8080/lines", "", header{"X-Lines": "400"}); res.StatusCode != 200 {
		t.Errorf("400 headers: %s, %q", res.Status, text)
	}
	if res, text := r.do("GET", ports+"8080/lines", "", header{"X-Lines": "500"}); res.StatusCode != 502 ||
		!strings.Contains(text, "500 lines") {
		t.Errorf("500 headers and others: %s, %q", res.Status, text)
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for range 20 {
		r.refused("GET", ports+"8022/", "", nil, 502)
	}
	if logged.Len() > 0 {
		t.Errorf("a program writes to the log: %s", &logged)
	}
	if _, text, err := r.try("GET", ports+"8080/short"); err == nil {
		t.Errorf("an answer that broke off is whole: %q", text)
	}
}

// TestPortsStreams: bodies go through in both directions at once, and in little memory.
func TestPortsStreams(t *testing.T) {
	r := newProgram(t, httpd.Config{}, nil)
	conn, in := r.open("POST " + ports + "8080/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	res := (*http.Response)(nil)
	for i := range 3 {
		fmt.Fprintf(conn, "4\r\nab%d\n\r\n", i)
		if res == nil {
			var err error
			if res, err = http.ReadResponse(in, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != fmt.Sprintf("ab%d\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	io.WriteString(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}

	const size = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	req, err := http.NewRequest("POST", "http://"+r.addr+ports+"8080/taken", io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = size
	if res, err = http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != fmt.Sprint(size) {
		t.Errorf("%q, %v", text, err)
	}
	if res, err = r.ask("GET", ports+"8080/big", "", header{"X-Bytes": fmt.Sprint(size)}); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
		t.Errorf("%d, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > size/4 {
		t.Errorf("%d bytes each way took %d bytes of memory", size, grown)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestPortsSwitch: a program switches a client to no protocol in which the client would send it further requests, with
// the key of this server.
func TestPortsSwitch(t *testing.T) {
	r := newProgram(t, httpd.Config{}, nil)
	for _, offer := range []string{"h2c", "TLS/1.2, HTTP/1.1", "websocket, h2c"} {
		for path, want := range map[string]int{"/h2c": 502, "/": 200} {
			_, in := r.open("GET " + ports + "8080" + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, " +
				"HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: " + offer + "\r\n\r\n")
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != want {
				t.Errorf("%s, %s: %+v, %v", offer, path, res, err)
				continue
			}
			text, _ := io.ReadAll(res.Body)
			if want == 200 && strings.Contains(string(text), `"Upgrade"`) {
				t.Errorf("%s: %s", offer, text)
			}
		}
	}
}

// TestPortsUpgrade: a WebSocket, and a tunnel whose halves end alone.
func TestPortsUpgrade(t *testing.T) {
	r := newProgram(t, httpd.Config{}, nil)
	conn, in := r.open("GET " + ports + "8080/ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\nearly")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Sec-Websocket-Accept") != "abc" ||
		res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, err := io.ReadAll(io.LimitReader(in, 5)); err != nil || string(got) != "early" {
		t.Errorf("right behind the request: %q, %v", got, err)
	}
	for _, frame := range [][]byte{{0x81, 0x82, 1, 2, 3, 4, 'h' ^ 1, 'i' ^ 2}, bytes.Repeat([]byte{0xff, 0}, 40_000)} {
		conn.Write(frame)
		got := make([]byte, len(frame))
		if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, frame) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if s := parse[api.Sandbox](t, r.ok(200, "GET", "/v1/sandboxes/web", "")); !s.IdleEndsAt.IsZero() {
		t.Errorf("idle while a connection is open: %+v", s)
	}
	conn.Close()

	conn, in = r.open("GET " + ports + "8080 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nGET /early HTTP/1.0\r\n\r\n")
	if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "tcp" {
		t.Fatalf("%+v, %v", res, err)
	}
	conn.CloseWrite()
	if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
		t.Fatalf("through the tunnel: %+v, %v", res, err)
	}
	if text, err := io.ReadAll(in); err != nil || !strings.Contains(string(text), "/early") {
		t.Errorf("%q, %v", text, err)
	}
	r.refused("GET", ports+"8081", "", header{"Connection": "Upgrade", "Upgrade": "tcp"}, 502)

	// The end of the sandbox ends what goes to it.
	_, in = r.open("GET " + ports + "8080 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%+v, %v", res, err)
	}
	r.ok(204, "DELETE", "/v1/sandboxes/web", "")
	if _, err := in.ReadByte(); err == nil {
		t.Error("the tunnel is open")
	}
	if lines := strings.Split(r.log.String(), "\n"); !slices.ContainsFunc(lines,
		func(l string) bool { return strings.Contains(l, `"status":101`) }) {
		t.Error("no upgrade is in the log")
	}
	if strings.Contains(r.log.String(), "panicked") {
		t.Error(r.log.String())
	}
}
