package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// event is one server-sent event as a client reads it.
type event struct {
	id         int
	name, data string
}

// events reads a stream to its end, or until each returns false.
func events(t testing.TB, body io.Reader, each func(event) bool) {
	t.Helper()
	in := bufio.NewReaderSize(body, 1<<20)
	var e event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if line != "" {
				t.Errorf("the stream ends in half a line: %q", line)
			}
			return
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "": // the end of an event, or a comment
			if e.name != "" && !each(e) {
				return
			}
			e = event{}
		case "id":
			e.id, _ = strconv.Atoi(value)
		case "event":
			e.name = value
		case "data":
			e.data += value
		default:
			t.Errorf("a line that no stream has: %q", line)
		}
	}
}

// collected is a whole stream.
type collected struct {
	id             sandbox.ID
	stdout, stderr strings.Builder
	pieces         int
	base64         int
	names          []string // of the events, each once in a row
	done           *api.Done
	problem        *api.Problem
}

// collect reads a whole stream; seen gets each event as it arrives.
func (r *rig) collect(body string, seen ...func(event)) *collected {
	r.t.Helper()
	req, _ := http.NewRequestWithContext(r.t.Context(), "POST", "http://"+r.addr+"/v1/run", strings.NewReader(body))
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		r.t.Fatalf("%s, %q: %s", res.Status, got, text)
	}
	c := &collected{}
	last, time := 0, 0.0
	events(r.t, res.Body, func(e event) bool {
		if e.id != last+1 {
			r.t.Errorf("event %d after event %d", e.id, last)
		}
		last = e.id
		at := parse[struct {
			TimeMS *float64 `json:"time_ms"`
		}](r.t, e.data).TimeMS
		if at == nil || *at < time {
			r.t.Errorf("after %v ms: %s", time, short(e.data))
		} else {
			time = *at
		}
		for _, f := range seen {
			f(e)
		}
		if c.done != nil || c.problem != nil {
			r.t.Errorf("%s after the end", e.name)
		}
		c.names = slices.Compact(append(c.names, e.name))
		switch e.name {
		case "started":
			s := parse[api.Started](r.t, e.data)
			if e.id != 1 || string(s.ID) != res.Header.Get(api.HeaderRun) ||
				s.RequestID != res.Header.Get("X-Request-Id") {
				r.t.Errorf("%+v", e)
			}
			c.id = s.ID
		case "stdout":
			c.add(r.t, &c.stdout, e)
		case "stderr":
			c.add(r.t, &c.stderr, e)
		case "done":
			c.done = new(parse[api.Done](r.t, e.data))
			if c.done.ID != c.id {
				r.t.Errorf("the execution %s started and %s ended", c.id, c.done.ID)
			}
		case "problem":
			p := parse[api.ProblemEvent](r.t, e.data)
			c.problem = &p.Problem
		case "result", "exception":
		default:
			r.t.Errorf("an event called %q", e.name)
		}
		return true
	})
	return c
}

func (c *collected) add(t testing.TB, to *strings.Builder, e event) {
	p := parse[api.OutputPiece](t, e.data)
	if p.Offset != int64(to.Len())+p.Dropped {
		t.Errorf("a piece at %d, want %d", p.Offset, to.Len())
	}
	c.pieces++
	if p.Base64 != nil {
		c.base64++
		to.Write(p.Base64)
		return
	}
	to.WriteString(p.Text)
}

// O02: a stream has the bytes of the buffered answer, also if characters arrive in halves.
func TestStream(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	t.Run("pieces come as they are written", func(t *testing.T) {
		g := newGate(t)
		r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}}, httpd.Config{})
		c := r.collect(g.program("echo a; await 2; echo b >&2; await 3; echo c"), func(e event) {
			g.open(t,
				strconv.Itoa(e.id))
		})
		if c.stdout.String() != "a\nc\n" || c.stderr.String() != "b\n" || c.pieces != 3 || c.base64 != 0 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("halves of characters", func(t *testing.T) {
		c := r.collect(python("import os,time\nfor b in ('€😀' * 3).encode():\n os.write(1, bytes([b])); time.sleep(.005)"))
		if c.stdout.String() != "€😀€😀€😀" || c.base64 != 0 {
			t.Errorf("%q, %d in base64", c.stdout.String(), c.base64)
		}
	})
	t.Run("half a character at the end", func(t *testing.T) {
		c := r.collect(python("import os\nos.write(1, b'a\\xe2\\x82')"))
		if c.stdout.String() != "a\xe2\x82" || c.base64 != 1 {
			t.Errorf("%q", c.stdout.String())
		}
	})
	t.Run("any bytes", func(t *testing.T) {
		c := r.collect(python("import os\nfor _ in range(100): os.write(1, bytes(range(256)))"))
		var all [256]byte
		for i := range all {
			all[i] = byte(i)
		}
		if c.stdout.String() != strings.Repeat(string(all[:]), 100) {
			t.Errorf("%d bytes", c.stdout.Len())
		}
	})
	t.Run("what would forge an event", func(t *testing.T) {
		c := r.collect(bash(`printf 'a\n\nevent: result\ndata: {}\n\nid: 9\n'`))
		if c.stdout.String() != "a\n\nevent: result\ndata: {}\n\nid: 9\n" || c.done == nil {
			t.Errorf("%q", c.stdout.String())
		}
	})
	t.Run("output over the limit", func(t *testing.T) {
		c := r.collect(jsonOf(object{"language": "python", "code": "print('a' * 5000 + 'z')",
			"limits": object{"output_kib": 1}}))
		if got := c.stdout.String(); !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "az\n") || len(got) >= 5002 {
			t.Errorf("%q", got)
		}
	})
	t.Run("an exception", func(t *testing.T) {
		c := r.collect(python("print(1)\n1/0"))
		if got := strings.Join(c.names, " "); !strings.HasPrefix(got, "started ") || !strings.HasSuffix(got,
			" exception done") ||
			c.done.Exception.Name != "ZeroDivisionError" {
			t.Errorf("%s: %+v", got, c.done)
		}
	})
	t.Run("a refusal has its own status", func(t *testing.T) {
		r.refused("POST", "/v1/run", `{"language":"cobol","code":"1"}`, header{"Accept": "text/event-stream"}, 400)
	})
}

// A client that goes away takes its run with it, whether it streams or not.
func TestClientGoesAway(t *testing.T) {
	for _, accept := range []string{"application/json", "text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			r := newRig(t, engine.Config{}, httpd.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.addr+"/v1/run", strings.NewReader(bash("sleep 1000")))
			req.Header.Set("Accept", accept)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := http.DefaultClient.Do(req); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			eventually(t, "the run begins", func() bool { return r.engine.Stats().Running == 1 })
			cancel()
			<-done
			eventually(t, "the run is canceled", func() bool { return r.engine.Stats().Ended[sandbox.StatusCanceled] == 1 })
			eventually(t, "its box is gone", func() bool { return r.engine.Stats().Live == 0 })
		})
	}
}

// H09: a client that reads nothing is dropped and its run canceled; the server's memory does not grow with what it does
// not read, and other runs are not held up.
func TestSlowReader(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{WriteTimeout: time.Second})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4096)
	body := jsonOf(object{"language": "python", "code": "while True: print('x' * 1000)",
		"limits": object{"output_kib": 1 << 18, "timeout_s": 600}})
	fmt.Fprintf(conn, "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	eventually(t, "the run begins", func() bool { return r.engine.Stats().Running == 1 })
	if a := r.run(bash("echo other")); a.Stdout != "other\n" {
		t.Errorf("%+v", a)
	}
	eventually(t, "the run is canceled", func() bool { return r.engine.Stats().Ended[sandbox.StatusCanceled] == 1 })
	eventually(t, "it is counted", func() bool {
		_, text := r.do("GET", "/metrics", "", nil)
		return strings.Contains(text, "fumehood_http_clients_lost_total 1\n")
	})
}

// installer is a Packager that installs nothing and says that it did.
type installer struct{ sandbox.Packager }

func (installer) Supply(_ context.Context, need sandbox.PackageNeed, _ sandbox.Worker) (*sandbox.Supply, error) {
	if need.Progress != nil {
		need.Progress("installing a")
	}
	return &sandbox.Supply{Packages: []sandbox.Package{{Name: "a", Version: "1"}}, Missing: []string{"glvnone"},
		Release: func() {}}, nil
}

// TestPackagesReported: a run reports the same packages and findings in a fresh sandbox and in a living one, in its
// answer and as a stream; and the document has the events.
func TestPackagesReported(t *testing.T) {
	r := newRig(t, engine.Config{Packages: installer{}, Checks: engine.Checks{Find: check.Policy{}.Find}}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	body := jsonOf(object{"language": "python", "code": "print(1); import glvnone # xmrig", "packages": []string{"auto"}})
	expect := func(what, text string) {
		for _, want := range []string{"The index has no package for the import of glvnone.",
			`"packages":[{"name":"a","version":"1"}]`, `"findings":[{"rule":"miner"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", what, want, text)
			}
		}
	}
	for _, path := range []string{"/v1/run", "/v1/sandboxes/work/run"} {
		expect(path, r.ok(200, "POST", path, body))
		res, err := r.ask("POST", path, body, header{"Accept": "text/event-stream"})
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		events(t, res.Body, func(e event) bool {
			switch e.name {
			case "progress":
				seen = append(seen, fmt.Sprintf("%q", parse[api.Progress](t, e.data).Text))
			case "stdout":
				if seen = append(seen, e.name); slices.Contains(seen[:len(seen)-1], e.name) { // in two pieces
					seen = seen[:len(seen)-1]
				}
			case "done":
				seen = append(seen, e.name)
				expect("the stream of "+path, e.data)
			}
			return true
		})
		res.Body.Close()
		if got := strings.Join(seen, ", "); got != `"installing a", "", stdout, done` {
			t.Errorf("%s: %s", path, got)
		}
	}
	if document := r.ok(200, "GET", "/openapi.json", ""); !strings.Contains(document, `"Progress":`) {
		t.Error("the document has no progress")
	}
}
