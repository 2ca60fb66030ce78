package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ok demands a status and returns the answer's body.
func (r *rig) ok(status int, method, path, body string) string {
	r.t.Helper()
	res, text := r.do(method, path, body, nil)
	if res.StatusCode != status {
		r.t.Fatalf("%s %s %s: %s, want %d: %s", method, path, short(body), res.Status, status, text)
	}
	return text
}

// follow reads the events of a run after an id, until each returns false.
func (r *rig) follow(path string, h header, each func(event) bool) {
	r.t.Helper()
	res, err := r.ask("GET", path, "", h)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		r.t.Fatalf("%s: %s: %s", path, res.Status, text)
	}
	events(r.t, res.Body, each)
}

func (r *rig) wholeLog(path string, h header) (all []string) {
	r.t.Helper()
	r.follow(path, h, func(e event) bool {
		all = append(all, fmt.Sprintf("%d %s %s", e.id, e.name, e.data))
		return true
	})
	return all
}

// TestLiving plays the life of a sandbox, from its creation to the reason of its end.
func TestLiving(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	made := parse[api.Sandbox](t, r.ok(201, "POST", "/v1/sandboxes",
		`{"name":"work","metadata":{"user":"u1"},"env":{"A":"b"},"include":["policy"]}`))
	if again := parse[api.Sandbox](t, r.ok(200, "POST", "/v1/sandboxes", `{"name":"work"}`)); again.ID != made.ID ||
		!again.Existing || again.Differences != nil || made.Existing || made.Policy == nil ||
		made.State != sandbox.StateReady {
		t.Errorf("%+v", again)
	}
	other := parse[api.Sandbox](t, r.ok(201, "POST", "/v1/sandboxes", `{}`))
	list := parse[api.SandboxList](t, r.ok(200, "GET", "/v1/sandboxes?metadata=user:u1", ""))
	if len(list.Sandboxes) != 1 || list.Sandboxes[0].ID != made.ID || list.More {
		t.Errorf("%+v", list)
	}
	if page := parse[api.SandboxList](t, r.ok(200, "GET", "/v1/sandboxes?limit=1", "")); len(page.Sandboxes) != 1 ||
		!page.More {
		t.Errorf("%+v", page)
	}
	if next := parse[api.SandboxList](t, r.ok(200, "GET", "/v1/sandboxes?after="+string(made.ID),
		"")); len(next.Sandboxes) != 1 || next.Sandboxes[0].ID != other.ID {
		t.Errorf("%+v", next)
	}
	patched := parse[api.Sandbox](t, r.ok(200, "PATCH", "/v1/sandboxes/work",
		`{"lifetime":{"idle_s":60,"ends_in_s":3600},"metadata":{"user":"u2"}}`))
	if *patched.Lifetime.IdleS != 60 || time.Until(patched.Lifetime.EndsAt).Round(time.Minute) != time.Hour ||
		patched.Metadata["user"] != "u2" {
		t.Errorf("%+v", patched)
	}
	t.Run("runs", func(t *testing.T) { r.at(t).livingRuns() })
	t.Run("events", func(t *testing.T) { r.at(t).livingEvents() })
	t.Run("files", func(t *testing.T) { r.at(t).livingFiles() })
	stats := parse[api.SandboxUsage](t, r.ok(200, "GET", "/v1/sandboxes/work/stats", ""))
	if stats.WallMS <= 0 {
		t.Errorf("%+v", stats)
	}
	if metrics := r.ok(200, "GET", "/metrics", ""); !strings.Contains(metrics, "fumehood_engine_sandboxes 2\n") {
		t.Error("the metrics lack the sandboxes")
	}
	for _, id := range []string{"work", string(other.ID)} {
		r.ok(204, "DELETE", "/v1/sandboxes/"+id, "")
		if p := r.refused("GET", "/v1/sandboxes/"+id+"/files/a", "", nil, 404); !strings.Contains(p.Detail, "removed") {
			t.Errorf("%+v", p)
		}
	}
}

// at is the rig in a subtest.
func (r *rig) at(t *testing.T) *rig {
	in := *r
	in.t = t
	return &in
}

func (r *rig) inside(body string) api.Answer {
	r.t.Helper()
	return parse[api.Answer](r.t, r.ok(200, "POST", "/v1/sandboxes/work/run", body))
}

func (r *rig) livingRuns() {
	t := r.t
	r.inside(`{"code":"x = 20"}`)
	if a := r.inside(`{"code":"print('é')\nx + 1","context":"default"}`); a.Stdout != "é\n" || len(a.Results) != 1 ||
		!a.Results[0].Main || a.Results[0].Data["text/plain"] != "21" {
		t.Errorf("%+v", a)
	}
	if a := r.inside(`{"code":"1/0"}`); a.Status != sandbox.StatusFailed || a.Exception == nil ||
		a.Exception.Name != "ZeroDivisionError" {
		t.Errorf("%+v", a)
	}
	if a := r.inside(`{"code":"import time\nwhile True: time.sleep(1)","limits":{"timeout_s":0.5}}`); a.Status != sandbox.StatusTimeout || a.Hint == nil ||
		!strings.Contains(*a.Hint, "still there") || strings.Contains(*a.Hint, "killed") {
		t.Errorf("%+v", a)
	}
	if a := r.inside(`{"code":"import os\nos._exit(3)"}`); a.Hint == nil || !strings.Contains(*a.Hint,
		"variables are gone") {
		t.Errorf("%+v", a)
	}
	if a := r.inside(`{"command":["sh","-c","echo $A; cat; echo > made"],"stdin":"in","return_files":["*"],"files":[{"path":"sent","content":"x"}]}`); a.Stdout != "b\nin" ||
		len(a.Files) != 1 || a.Files[0].Path != "made" {
		t.Errorf("%+v", a)
	}
	if a := r.inside(`{"entry":"prog.py","files":[{"path":"prog.py","content":"import sys; print(sys.argv[1:])"}],"args":["1"]}`); a.Stdout != "['1']\n" {
		t.Errorf("%+v", a)
	}
	c := parse[api.Context](t, r.ok(201, "POST", "/v1/sandboxes/work/contexts", `{"name":"second","dir":"/tmp"}`))
	r.inside(`{"code":"x = 'of the second'","context":"second"}`)
	if a := r.inside(`{"code":"import os\nprint(x, os.getcwd())","context":"` + string(c.ID) +
		`"}`); a.Stdout != "of the second /tmp\n" {
		t.Errorf("%+v", a)
	}
	if got := parse[api.Completion](t, r.ok(200, "POST", "/v1/sandboxes/work/contexts/second/complete",
		`{"code":"x.upp"}`)); len(got.Names) == 0 {
		t.Errorf("%+v", got)
	}
	r.ok(204, "POST", "/v1/sandboxes/work/contexts/second/interrupt", "")
	r.ok(204, "POST", "/v1/sandboxes/work/contexts/second/restart", "")
	if a := r.inside(`{"code":"x","context":"` + string(c.ID) + `"}`); a.Exception == nil ||
		a.Exception.Name != "NameError" {
		t.Errorf("%+v", a)
	}
	r.ok(204, "POST", "/v1/sandboxes/work/contexts/"+string(c.ID)+"/interrupt", "")
	r.ok(204, "DELETE", "/v1/sandboxes/work/contexts/second", "")
	if all := parse[api.ContextList](t, r.ok(200, "GET", "/v1/sandboxes/work/contexts", "")); len(all.Contexts) != 1 ||
		all.Contexts[0].Name != "default" {
		t.Errorf("%+v", all)
	}
}

// livingEvents plays runs that go on without their clients.
func (r *rig) livingEvents() {
	t := r.t
	const run = "/v1/sandboxes/work/run"
	begun := parse[api.Run](t, r.ok(202, "POST", run, `{"command":["cat"],"interactive":true,"background":true}`))
	path := run + "s/" + string(begun.ID)
	r.ok(204, "POST", path+"/stdin", "one\n")
	var seen []string
	r.follow(path+"/events", nil, func(e event) bool { // a client that leaves
		seen = append(seen, e.name)
		return e.name != "stdout"
	})
	if info := parse[api.Run](t, r.ok(200, "GET", path, "")); info.Status != sandbox.StatusRunning ||
		len(info.Command) != 1 || !info.Background || seen[0] != "started" {
		t.Errorf("%+v, %v", info, seen)
	}
	if s := parse[api.Sandbox](t, r.ok(200, "GET", "/v1/sandboxes/work", "")); s.State != sandbox.StateReady ||
		s.Running != 1 || !s.IdleEndsAt.IsZero() {
		t.Errorf("%+v", s)
	}
	r.ok(204, "POST", path+"/stdin?eof=1", "two\xff\n")
	all := r.wholeLog(path+"/events", nil)
	if len(all) < 4 || !strings.Contains(all[0], `started`) || !strings.Contains(all[1], `"text":"one\n"`) ||
		!strings.Contains(all[2], `"base64"`) || !strings.Contains(all[len(all)-1], `done`) {
		t.Errorf("%q", all)
	}
	for _, again := range [][]string{r.wholeLog(path+"/events?after=1", nil), r.wholeLog(path+"/events?after=0",
		header{"Last-Event-ID": "1"})} {
		if fmt.Sprint(again) != fmt.Sprint(all[1:]) {
			t.Errorf("replayed after 1: %q", again)
		}
	}
	for _, at := range []string{"?after=99", "?after=-1", "?after=x"} {
		r.refused("GET", path+"/events"+at, "", nil, 400)
	}

	// A stream has the results of the code, and the run's id for its next reader.
	res, text := r.do("POST", run, `{"code":"print(7)\ndisplay(21)\n1/0"}`, header{"Accept": "text/event-stream"})
	streamed := r.wholeLog(run+"s/"+res.Header.Get("Fumehood-Run-Id")+"/events", nil)
	replayed := strings.Join(streamed, "\n")
	for _, has := range []string{` stdout {`, `"offset":0,"text":"7\n"}`, ` result {`, `"data":{"text/plain":"21"}`,
		` exception {`, ` done {`, `"status":"failed"`} {
		if !strings.Contains(replayed, has) {
			t.Errorf("%s is not in %s", has, replayed)
		}
	}
	for i, line := range streamed {
		_, data, _ := strings.Cut(line, "{")
		if !strings.HasPrefix(line, fmt.Sprint(i+1, " ")) || !strings.Contains(text, data) || strings.Contains(line,
			"dropped_bytes") {
			t.Errorf("replayed is %s, streamed was %s", line, text)
		}
	}
	for _, end := range []struct{ method, path, body, status string }{
		{"POST", "/signal", `{"signal":"SIGTERM"}`, "killed"},
		{"POST", "/signal", `{"signal":9}`, "canceled"},
		{"DELETE", "", "", "canceled"},
	} {
		begun := parse[api.Run](t, r.ok(202, "POST", run, `{"command":["sleep","1000"],"background":true}`))
		path := run + "s/" + string(begun.ID)
		r.ok(204, end.method, path+end.path, end.body)
		if all := r.wholeLog(path+"/events", nil); !strings.Contains(all[len(all)-1], `"status":"`+end.status+`"`) {
			t.Errorf("%+v: %q", end, all)
		}
	}
	r.refused("POST", path+"/terminal", `{"rows":20,"columns":50}`, nil, 400)                  // it has none
	r.refused("POST", run, `{"command":["true"],"terminal":{"rows":1,"columns":1}}`, nil, 400) // nobody reads it
	r.refused("POST", run, `{"command":["true"],"background":true,"terminal":{"rows":0,"columns":1}}`, nil, 400)
	r.refused("POST", run, `{"code":"1","background":true,"terminal":{"rows":1,"columns":1}}`, nil, 400)
	if all := parse[api.RunList](t, r.ok(200, "GET", run+"s", "")); len(all.Runs) < 5 ||
		all.Runs[0].Status == sandbox.StatusRunning {
		t.Errorf("%+v", all)
	}
}

func (r *rig) livingFiles() {
	t := r.t
	const files = "/v1/sandboxes/work/files"
	content := "0123456789"
	r.ok(201, "PUT", files+"/dir/a.bin?mode=0600", content)
	r.ok(204, "PUT", files+"/dir/a.bin?mode=0600", content)
	if got := r.ok(200, "GET", files+"?path=/workspace/dir/a.bin", ""); got != content {
		t.Error(got)
	}
	for _, c := range []struct {
		header, want, content string
		status                int
	}{
		{"bytes=2-4", "bytes 2-4/10", "234", 206}, {"bytes=7-", "bytes 7-9/10", "789", 206}, {"bytes=-2", "bytes 8-9/10",
			"89", 206}, {"bytes=5-99", "bytes 5-9/10", "56789", 206},
		{"bytes=-0", "bytes */10", "", 416}, {"bytes=10-", "bytes */10", "", 416}, {"bytes=0-1,3-4", "", content,
			200}, {"lines=1-2", "", content, 200}, {"bytes=4-2", "", content, 200},
	} {
		res, text := r.do("GET", files+"/dir/a.bin", "", header{"Range": c.header})
		if res.StatusCode != c.status || res.Header.Get("Content-Range") != c.want || c.status != 416 && text != c.content {
			t.Errorf("%s: %s, %q: %s", c.header, res.Status, res.Header.Get("Content-Range"), text)
		}
	}
	info := parse[api.FileInfo](t, r.ok(200, "GET", files+"/dir/a.bin?stat=1", ""))
	if info.Size != 10 || info.Mode != "0600" || info.Type != "file" || info.Path != "/workspace/dir/a.bin" {
		t.Errorf("%+v", info)
	}
	if res, _ := r.do("HEAD", files+"/dir/a.bin", "", nil); res.ContentLength != 10 {
		t.Errorf("%v", res)
	}
	r.ok(204, "POST", "/v1/sandboxes/work/mkdir", `{"path":"empty/deep"}`)
	r.ok(204, "POST", "/v1/sandboxes/work/move", `{"from":"dir/a.bin","to":"dir/b.bin"}`)
	r.ok(201, "PUT", files+"/dir/none", "")
	if got := r.ok(200, "GET", files+"/dir/none", ""); got != "" {
		t.Error(got)
	}
	deep := parse[api.FileList](t, r.ok(200, "GET", files+"?depth=2", ""))
	if shallow := parse[api.FileList](t, r.ok(200, "GET", files+"?list=1&limit=1", "")); len(shallow.Files) != 1 ||
		!shallow.More || len(deep.Files) < 5 || deep.More {
		t.Errorf("%+v, %+v", deep, shallow)
	}
	conn := r.dial()
	fmt.Fprintf(conn, "PUT %s/dir/b.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf", files)
	conn.CloseWrite()
	if said, _ := io.ReadAll(conn); !strings.HasPrefix(string(said), "HTTP/1.1 400") || r.ok(200, "GET",
		files+"/dir/b.bin", "") != content {
		t.Errorf("after half of a body: %s", said)
	}
	for _, path := range []string{"/dir/no", "/no/such"} {
		r.refused("GET", files+path, "", nil, 404)
	}
	r.refused("DELETE", files+"/dir", "", nil, 409)
	r.ok(204, "DELETE", files+"/dir?recursive=true", "")
	r.ok(204, "POST", "/v1/sandboxes/work/clean", "")
	if left := parse[api.FileList](t, r.ok(200, "GET", files, "")); len(left.Files) != 0 {
		t.Errorf("%+v", left)
	}
}

func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// TestLivingSlowReader: a client that reads nothing is dropped. Its run goes on, and its events are there for the next
// one.
func TestLivingSlowReader(t *testing.T) {
	g := newGate(t)
	r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}}, httpd.Config{WriteTimeout: time.Second})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work","limits":{"output_kib":65536,"timeout_s":600}}`)
	conn := r.dial()
	conn.SetReadBuffer(4096)
	body := jsonOf(object{"command": []string{"sh", "-c",
		"head -c 30000000 /dev/zero | tr '\\0' x; until [ -e /gate/on ]; do sleep 0.01; done; echo end"}})
	fmt.Fprintf(conn, "POST /v1/sandboxes/work/run HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	eventually(t, "the client is dropped", func() bool {
		return strings.Contains(r.ok(200, "GET", "/metrics", ""), "fumehood_http_clients_lost_total 1\n")
	})
	runs := parse[api.RunList](t, r.ok(200, "GET", "/v1/sandboxes/work/runs", ""))
	if len(runs.Runs) != 1 || runs.Runs[0].Status != sandbox.StatusRunning {
		t.Fatalf("%+v", runs)
	}
	g.open(t, "on")
	var last event
	read := int64(0)
	r.follow("/v1/sandboxes/work/runs/"+string(runs.Runs[0].ID)+"/events", nil, func(e event) bool {
		if e.name == "stdout" {
			p := parse[api.OutputPiece](t, e.data)
			read += p.Dropped + int64(len(p.Text))
		}
		last = e
		return true
	})
	if last.name != "done" || !strings.Contains(last.data, `"succeeded"`) || read != 30_000_004 {
		t.Errorf("%d bytes, then %+v", read, last)
	}
}

// TestLivingShutdown: a server that stops does not wait for the readers of runs that go on.
func TestLivingShutdown(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	begun := parse[api.Run](t, r.ok(202, "POST", "/v1/sandboxes/work/run",
		`{"command":["sleep","1000"],"background":true}`))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := r.server.HTTPServer()
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	r.addr = listener.Addr().String()
	res, err := r.ask("GET", "/v1/sandboxes/work/runs/"+string(begun.ID)+"/events", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(res.Body); err != nil || strings.Count(string(text), "event:") != 1 {
		t.Errorf("%s, %v", text, err)
	}
	<-served
}

// TestLivingRefusals: a refusal names the wrong field, and a client sees nothing of another's sandboxes.
func TestLivingRefusals(t *testing.T) {
	alice, _ := httpd.NewKey("alice", strings.Repeat("a", 32))
	bob, _ := httpd.NewKey("bob", strings.Repeat("b", 32))
	r := newRig(t, engine.Config{Living: engine.LivingConfig{OwnerMost: 1}}, httpd.Config{
		Keys:    httpd.NewKeyring(alice, bob),
		MaxFile: 100})
	as := func(key string) header { return header{"X-API-Key": strings.Repeat(key, 32)} }
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"a"}`, as("a")); res.StatusCode != 201 {
		t.Fatal(text)
	}
	missing := string(sandbox.NewID())
	for _, c := range []struct {
		method, path, body string
		status             int
		param              string
	}{
		{"POST", "/v1/sandboxes", `{"name":"b"}`, 403, ""},
		{"POST", "/v1/sandboxes", `{"name":"A B"}`, 400, "name"},
		{"POST", "/v1/sandboxes", `{"lifetime":{"idle_s":0.5}}`, 400, "lifetime.idle_s"},
		{"POST", "/v1/sandboxes", `{"lifetime":{"idle_s":1e-30}}`, 400, "lifetime.idle_s"},
		{"POST", "/v1/sandboxes", `{"lifetime":{"idle_s":-1e30}}`, 400, "lifetime.idle_s"},
		{"POST", "/v1/sandboxes", `{"lifetime":{"ends_in_s":1e30}}`, 400, "lifetime.ends_in_s"},
		{"PATCH", "/v1/sandboxes/a", `{"lifetime":{"ends_in_s":0}}`, 400, "lifetime.ends_in_s"},
		{"GET", "/v1/sandboxes/a?include=output", "", 400, "include"},
		{"POST", "/v1/sandboxes", `{"metadata":{"":"x"}}`, 400, "metadata"},
		{"POST", "/v1/sandboxes", `{"metadata":{"e2b.ports":"public"}}`, 400, "metadata"},
		{"PATCH", "/v1/sandboxes/a", `{"metadata":{"e2b.ports":"public"}}`, 400, "metadata"},
		{"POST", "/v1/sandboxes", `{"backend":"none"}`, 400, "backend"},
		{"GET", "/v1/sandboxes?metadata=x", "", 400, "metadata"},
		{"GET", "/v1/sandboxes?limit=0", "", 400, "limit"},
		{"GET", "/v1/sandboxes?after=x", "", 400, "after"},
		{"GET", "/v1/sandboxes?afetr=x", "", 400, "query"},
		{"GET", "/v1/sandboxes/no", "", 404, ""},
		{"GET", "/v1/sandboxes/%00", "", 404, ""},
		{"GET", "/v1/sandboxes/" + missing, "", 404, ""},
		{"PUT", "/v1/sandboxes/a", `{}`, 405, ""},
		{"PATCH", "/v1/sandboxes/a", `{"lifetime":{"idle_s":-1}}`, 400, "lifetime.idle_s"},
		{"PATCH", "/v1/sandboxes/a", `{"lifetime":{"ends_in_s":60,"ends_at":"2030-01-01T00:00:00Z"}}`, 400, "lifetime"},
		{"PATCH", "/v1/sandboxes/a", `{"lifetime":{"ends_at":"2999-01-01T00:00:00Z"}}`, 400, "lifetime.ends_at"},
		{"POST", "/v1/sandboxes/a/run", `{}`, 400, "code"},
		{"POST", "/v1/sandboxes/a/run", `{"code":"1","command":["true"]}`, 400, "code"},
		{"POST", "/v1/sandboxes/a/run", `{"code":"1","context":"no"}`, 404, ""},
		{"POST", "/v1/sandboxes/a/run", `{"code":"1","language":"cobol"}`, 400, "language"},
		{"POST", "/v1/sandboxes/a/run", `{"code":"1","stdin":"x"}`, 400, "stdin"},
		{"POST", "/v1/sandboxes/a/run", `{"command":["cat"],"interactive":true}`, 400, "interactive"},
		{"POST", "/v1/sandboxes/a/run", `{"command":["cat"],"background":true,"return_files":["*"]}`, 400, "return_files"},
		{"POST", "/v1/sandboxes/a/run", `{"command":["cat"],"limits":{"memory_mib":5}}`, 400, "limits"},
		{"GET", "/v1/sandboxes/a/runs/" + missing, "", 404, ""},
		{"GET", "/v1/sandboxes/a/runs/x/events", "", 404, ""},
		{"POST", "/v1/sandboxes/a/runs/x/stdin", "x", 404, ""},
		{"POST", "/v1/sandboxes/a/runs/x/signal", `{"signal":2}`, 404, ""},
		{"DELETE", "/v1/sandboxes/a/runs/x", "", 404, ""},
		{"POST", "/v1/sandboxes/a/contexts", `{"name":"x","language":"cobol"}`, 400, "language"},
		{"POST", "/v1/sandboxes/a/contexts", `{"name":"../x"}`, 400, "name"},
		{"POST", "/v1/sandboxes/a/contexts/no/restart", "", 404, ""},
		{"POST", "/v1/sandboxes/a/contexts/no/complete", `{"code":""}`, 404, ""},
		{"DELETE", "/v1/sandboxes/a/contexts/no", "", 404, ""},
		{"GET", "/v1/sandboxes/a/files/%2e%2e/etc", "", 404, ""},
		{"GET", "/v1/sandboxes/a/files?path=/proc/self/mem", "", 400, "path"},
		{"GET", "/v1/sandboxes/a/files?path=", "", 400, "path"},
		{"GET", "/v1/sandboxes/a/files?path=a%00b", "", 400, "path"},
		{"GET", "/v1/sandboxes/a/files?list=yes", "", 400, "list"},
		{"GET", "/v1/sandboxes/a/files?depth=0", "", 400, "depth"},
		{"PUT", "/v1/sandboxes/a/files", "x", 400, "path"},
		{"PUT", "/v1/sandboxes/a/files/x?mode=7777", "x", 400, "mode"},
		{"PUT", "/v1/sandboxes/a/files/x", strings.Repeat("x", 101), 413, ""},
		{"DELETE", "/v1/sandboxes/a/files/no", "", 404, ""},
		{"POST", "/v1/sandboxes/a/move", `{"from":"no","to":"x"}`, 404, ""},
		{"POST", "/v1/sandboxes/a/mkdir", `{"path":""}`, 400, "path"},
	} {
		if p := r.refused(c.method, c.path, c.body, as("a"), c.status); p.Param != c.param {
			t.Errorf("%s %s %s: param %q, want %q: %s", c.method, c.path, c.body, p.Param, c.param, p.Detail)
		}
	}
	if code := r.locally("POST", "/v1/sandboxes", `{"name":"a"}`); code != 201 { // another one than alice's
		t.Errorf("on the local socket: %d", code)
	}
	for _, path := range []string{"", "/files", "/runs", "/stats"} {
		r.refused("GET", "/v1/sandboxes/a"+path, "", as("b"), 404)
	}
	if res, text := r.do("GET", "/v1/sandboxes", "", as("b")); res.StatusCode != 200 || len(parse[api.SandboxList](t,
		text).Sandboxes) != 0 {
		t.Error(text)
	}
	if res, text := r.do("GET", "/v1/sandboxes/a/files/x?stat=1", "", as("a")); res.StatusCode != http.StatusNotFound {
		t.Errorf("a file that was refused is there: %s", text)
	}
}

// locally sends a request without a key to the server's local socket.
func (r *rig) locally(method, path, body string) int {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "fhx") // t.TempDir's names are too long for a socket
	if err != nil {
		r.t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", dir+"/s")
	if err != nil {
		r.t.Fatal(err)
	}
	server := r.server.LocalServer()
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	defer func() { <-served }()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", dir+"/s")
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
