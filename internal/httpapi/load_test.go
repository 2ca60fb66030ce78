package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// H10: every request of a flood ends in one way that the client and the server count alike; past the queue that is 429
// with Retry-After, and a request that was taken back in the queue never starts.
func TestFlood(t *testing.T) {
	const requests, clients = 400, 100
	g := newGate(t)
	r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}, Slots: 2, Queue: 20}, httpd.Config{})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var served, busy, gone, other atomic.Int64
	var all sync.WaitGroup
	next := make(chan int)
	for range clients {
		all.Go(func() {
			for i := range next {
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 1 {
					time.AfterFunc(time.Duration(i%7)*time.Millisecond, cancel)
				}
				req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.addr+"/v1/run",
					strings.NewReader(g.program("await end")))
				res, err := client.Do(req)
				if err != nil {
					gone.Add(1)
					cancel()
					continue
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				cancel()
				switch {
				case err != nil:
					gone.Add(1)
				case res.StatusCode == 200:
					served.Add(1)
				case res.StatusCode == 429 && res.Header.Get("Retry-After") >= "1":
					busy.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	next <- 0
	next <- 2
	eventually(t, "all slots are held", func() bool { return r.engine.Stats().Running == 2 })
	for i := range requests - 2 { // so most of those that nobody takes back are refused, however slow their clients are
		next <- i
	}
	close(next)
	g.open(t, "end")
	all.Wait()
	if n := served.Load() + busy.Load() + gone.Load(); n != requests || other.Load() != 0 || served.Load() == 0 ||
		busy.Load() == 0 {
		t.Errorf("%d served, %d refused, %d gone, %d ended otherwise", served.Load(), busy.Load(), gone.Load(), other.Load())
	}
	eventually(t, "all is given back", func() bool {
		s := r.engine.Stats()
		return s.Running == 0 && s.Queued == 0 && s.Live == 0 && s.Closing == 0
	})
	s := r.engine.Stats()
	if got := int64(s.Ended[sandbox.StatusSucceeded]); got < served.Load() || len(s.Ended) > 2 {
		t.Errorf("%d were served, the engine says %v", served.Load(), s.Ended)
	}
	if got := int64(s.Refused[sandbox.Busy]); got < busy.Load() || len(s.Refused) > 1 {
		t.Errorf("%d were refused, the engine says %v", busy.Load(), s.Refused)
	}
}

func TestDrain(t *testing.T) {
	g := newGate(t)
	r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}}, httpd.Config{})
	done := make(chan api.Answer)
	go func() { done <- r.run(g.program("await drain; echo whole")) }()
	eventually(t, "the run begins", func() bool { return r.engine.Stats().Running == 1 })
	r.server.Drain()
	r.refused("GET", "/readyz", "", nil, 503)
	drained := make(chan error)
	go func() { drained <- r.engine.Drain(t.Context()) }()
	eventually(t, "runs are refused", func() bool { return r.engine.Stats().Draining })
	r.refused("POST", "/v1/run", bash("true"), nil, 503)
	if res, _ := r.do("GET", "/healthz", "", nil); res.StatusCode != 200 {
		t.Error("a server that drains is alive")
	}
	g.open(t, "drain")
	if a := <-done; a.Stdout != "whole\n" {
		t.Errorf("%+v", a)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// O07: what programs and clients say reaches log and metrics escaped, or not at all, and adds no series.
func TestInjection(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	series := func() int {
		_, text := r.do("GET", "/metrics", "", nil)
		return strings.Count(text, "\nfumehood_")
	}
	forged := "\n{\"level\":\"error\",\"msg\":\"forged\"}"
	ask := func() {
		r.run(jsonOf(object{"language": "python", "code": "print(" + jsonOf(forged) + ")", "metadata": object{"run": forged,
			"a\"}\n# HELP": "x"}}))
		r.do("GET", "/"+`a%22%7D%0A`, "", nil)
		r.do("PUT", "/v1/run", "", nil)
		r.do("FORGED", "/v1/run", "", nil)
		r.do("POST", "/v1/run", `{"language":"`+strings.Repeat("z", 20)+`","code":"1"}`, nil)
	}
	ask()
	series()
	before := series()
	for range 5 {
		ask()
	}
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	log := strings.TrimSpace(r.log.String())
	for line := range strings.SplitSeq(log, "\n") {
		entry := parse[object](t, line)
		if msg := entry["msg"]; msg != "run" && msg != "request" {
			t.Errorf("a line that nobody wrote: %s", line)
		}
	}
	if strings.Count(log, "forged") != 6 { // the metadata of six runs, and no output
		t.Errorf("%d times in the log", strings.Count(log, "forged"))
	}
	_, text := r.do("GET", "/metrics", "", nil)
	for _, bad := range []string{"forged", "FORGED", "zzzz", "HELP\""} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in the metrics", bad)
		}
	}
}

// TestRunMetrics counts a run of each kind by language and status, with the output over its limit.
func TestRunMetrics(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	request := jsonOf(object{"language": "bash", "code": "head -c 5000 /dev/zero", "limits": object{"output_kib": 1}})
	r.run(request)
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	r.ok(200, "POST", "/v1/sandboxes/work/run", `{"command":["true"]}`)
	metrics := r.ok(200, "GET", "/metrics", "")
	for _, want := range []string{
		`fumehood_runs_total{language="bash",status="succeeded"} 1`,
		`fumehood_runs_total{language="command",status="succeeded"} 1`,
		"fumehood_output_dropped_bytes_total 3976", // of 5000, 1024 are kept
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// What this package adds to a run: a request that the engine refuses at once passes through all of it but the answer's
// encoding.
func BenchmarkRequest(b *testing.B) {
	r := newRig(b, engine.Config{}, httpd.Config{})
	for b.Loop() {
		if res, text := r.do("POST", "/v1/run", `{"language":"cobol","code":"1"}`, nil); res.StatusCode != 400 {
			b.Fatal(text)
		}
	}
}

// A deadline for writing stays with its connection; it must not fall on the requests that come after, nor on a run that
// is silent for longer.
func TestIdleConnectionIsServed(t *testing.T) {
	const timeout, idle = 2 * time.Second, 2200 * time.Millisecond
	r := newRig(t, engine.Config{}, httpd.Config{WriteTimeout: timeout})
	for _, path := range []string{"/healthz", "/nothing", "/metrics", "/v1/languages"} {
		for _, method := range []string{"GET", "HEAD"} {
			r.do(method, path, "", nil) // fails the test where nothing comes back
		}
	}
	time.Sleep(idle)
	if a := r.run(bash("sleep 2.2; echo 1")); a.Stdout != "1\n" {
		t.Errorf("%+v", a)
	}
	r.refused("POST", "/v1/run", "{", nil, 400)
}

// unbounded is a backend on a host that cannot limit memory.
type unbounded struct{ sandbox.Backend }

func (unbounded) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	lacking := []sandbox.LimitName{sandbox.LimitMemory}
	if spec.Waives("memory") {
		return lacking, nil
	}
	return lacking, &sandbox.Error{Kind: sandbox.Unsupported, Op: "limit memory", Msg: "nothing enforces it",
		Fix: "run as root", Unenforced: lacking}
}

// A server that would reject default requests is not ready, and reports why, unless its operator waived the limits.
func TestReady(t *testing.T) {
	backends := []sandbox.Backend{unbounded{backendtest.NewFake(t)}}
	r := newRig(t, engine.Config{Backends: backends}, httpd.Config{})
	if p := r.refused("GET", "/readyz", "", nil, 503); !strings.Contains(p.Detail, "nothing enforces it") ||
		p.Hint != `run as root; or run without: "allow_unenforced": ["memory"]` {
		t.Errorf("%+v", p)
	}
	if _, text := r.do("GET", "/v1/capabilities", "", nil); !strings.Contains(text, `"usable":false`) {
		t.Error(text)
	}
	r = newRig(t, engine.Config{Backends: backends, AllowUnenforced: []string{"memory"}, Default: engine.Auto},
		httpd.Config{})
	if res, text := r.do("GET", "/readyz", "", nil); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, text)
	}
}
