package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/mcp"
)

// rig is a server of MCP over HTTP.
type rig struct {
	t      *testing.T
	server *httpd.Server
	url    string
}

func newRig(t *testing.T) (*rig, *client) {
	e := newEngine(t)
	server, err := httpd.New(httpd.Config{Engine: e, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mcp.Add(server))
	at := httptest.NewServer(server.Handler())
	t.Cleanup(at.Close)
	r := &rig{t, server, at.URL + "/mcp"}
	return r, connect(t, e, &sdk.StreamableClientTransport{Endpoint: r.url})
}

// post sends a message as it is. The caller closes the body of the answer.
func (r *rig) post(session, body string) *http.Response {
	r.t.Helper()
	response, err := r.try(r.t.Context(), session, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response
}

func (r *rig) try(ctx context.Context, session, body string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2025-06-18"}}
	if session != "" {
		q.Header.Set("Mcp-Session-Id", session)
	}
	return http.DefaultClient.Do(q)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyValues: a message that decodes to many times its size is refused before it is decoded, and so is a batch.
func TestManyValues(t *testing.T) {
	r, c := newRig(t)
	for what, meta := range map[string]string{"lists": strings.Repeat("[],", 1<<20) + "0",
		"objects": strings.Repeat(`{"":0},`, 500_000) + "0",
		"levels":  strings.Repeat("[", 1000) + strings.Repeat("]", 1000)} {
		response := r.post(c.ID(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_files",`+
			`"_meta":{"a":[`+meta+`]}}}`)
		response.Body.Close()
		if response.StatusCode != 413 {
			t.Errorf("%s: %s", what, response.Status)
		}
	}
	response := r.post(c.ID(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_files",`+
		`"arguments":{"`+strings.Repeat("\x7f", 1<<20)+`":1}}}`)
	response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("a long name: %s", response.Status)
	}
	response = r.post(c.ID(), ` [{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	response.Body.Close()
	if response.StatusCode != 400 {
		t.Errorf("a batch: %s", response.Status)
	}
}

// TestHeldMessages: what large messages hold during their calls is counted, also after their clients have left, and
// nothing of a message that begins a session stays.
func TestHeldMessages(t *testing.T) {
	r, c := newRig(t)
	c.call("run_command", map[string]any{"command": "true"}) // makes the sandbox
	const calls, size = 5, 3 << 20
	long := strings.Repeat("x", size)
	before := heap()
	ctx, leave := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for i := range calls {
		body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 100 + i, "method": "tools/call",
			"params": map[string]any{"name": "run_command", "arguments": map[string]any{"stdin": long,
				"command":   fmt.Sprintf("touch begun%d; while [ ! -e end ]; do sleep 0.02; done", i),
				"timeout_s": stepTimeout.Seconds()}}})
		work.Go(func() {
			if response, err := r.try(ctx, c.ID(), string(body)); err == nil {
				response.Body.Close()
				t.Error("a call has ended")
			}
		})
	}
	c.call("run_command", map[string]any{"timeout_s": stepTimeout.Seconds(),
		"command": fmt.Sprintf("while [ $(ls begun* | wc -l) != %d ]; do sleep 0.02; done", calls)})
	leave()
	work.Wait()
	counted, _ := r.server.Held()
	held := heap() - before
	t.Logf("%d bytes are held and %d counted", held, counted)
	if held > counted {
		t.Errorf("%d bytes are held and %d counted", held, counted)
	}
	c.call("write_file", map[string]any{"path": "end", "content": ""})
	for end := time.Now().Add(stepTimeout); counted > 0; time.Sleep(10 * time.Millisecond) {
		if counted, _ = r.server.Held(); time.Now().After(end) {
			t.Fatalf("%d bytes stay counted", counted)
		}
	}

	for _, method := range []string{"initialize", "ping", "notifications/initialized"} {
		response := r.post(c.ID(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{"a":%q}}}`,
			method, long))
		response.Body.Close()
		if response.StatusCode != 413 {
			t.Errorf("a large %s: %s", method, response.Status)
		}
	}
	const sessions = 100
	before = heap()
	for range sessions {
		response := r.post("", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize",
			"params":{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"a":%q}},
			"clientInfo":{"name":%q,"version":""},"_meta":{"a":%q}}}`,
			long[:5<<10], long[:5<<10], long[:5<<10]))
		response.Body.Close()
		session := response.Header.Get("Mcp-Session-Id")
		if response.StatusCode != 200 || session == "" {
			t.Fatal(response.Status)
		}
	}
	if stays := heap() - before; stays > sessions*60<<10 {
		t.Errorf("%d bytes stay of %d sessions", stays, sessions)
	}
}

// TestLongID: a message with a long id is refused before it is encoded, which would make it six times as long.
func TestLongID(t *testing.T) {
	r, _ := newRig(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response := r.post("", `{"jsonrpc":"2.0","id":"`+strings.Repeat("<", 2<<20)+`","method":"tools/call"}`)
	runtime.ReadMemStats(&after)
	response.Body.Close()
	status, n := response.StatusCode, after.TotalAlloc-before.TotalAlloc
	if status != http.StatusRequestEntityTooLarge || n > 16<<20 {
		t.Errorf("status %d, %d bytes for 2 MiB", status, n)
	}
}
