package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/mcp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestNamedSandbox: sessions that name a sandbox share it, and it outlives them; one of a session has a mark.
func TestNamedSandbox(t *testing.T) {
	r, unnamed := newRig(t)
	unnamed.code("x = 0")
	named := func() *client {
		return connect(t, unnamed.engine, &sdk.StreamableClientTransport{Endpoint: r.url + "?sandbox=work"})
	}
	first, second := named(), named()
	if o := first.code("x = 1"); !strings.Contains(o.text, "The sandbox work is new.") {
		t.Errorf("%+v", o)
	}
	if o := second.code("x"); o.text != "=> 1" {
		t.Errorf("%+v", o)
	}
	first.Close()
	second.Close()
	third := named()
	if o := third.code("x"); o.text != "=> 1" {
		t.Errorf("after the sessions: %+v", o)
	}
	marks := map[string]string{}
	list, _, err := unnamed.engine.Sandboxes("", nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range list {
		i := unnamed.engine.Living(id).Info()
		marks[i.Name] = i.Spec.Metadata["mcp"]
	}
	if len(marks) != 2 || marks[""] != "test" || marks["work"] != "test" {
		t.Errorf("%v", marks)
	}
	third.call("reset_sandbox", nil)
	if o := third.code("x"); o.Exception == nil {
		t.Errorf("after a reset: %+v", o)
	}
	if o := unnamed.code("x"); o.text != "=> 0" {
		t.Errorf("another sandbox: %+v", o)
	}
	for query, want := range map[string]int{"?sandbx=a": 400, "?sandbox=a&sandbox=b": 400} {
		at := *r
		at.url += query
		response := at.post("", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", query, response.Status)
		}
	}
}

// TestDescriptions: the description of the tools says what their sandbox reaches.
func TestDescriptions(t *testing.T) {
	for _, c := range []struct {
		network sandbox.NetworkPolicy
		want    string
	}{
		{sandbox.NetworkPolicy{}, "It has no network."},
		{sandbox.NetworkPolicy{Allow: []string{"api.example.org:443"}},
			"Its network reaches only api.example.org:443."},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}, "It can reach the internet."},
	} {
		s := mcp.New(mcp.Config{Engine: newEngine(t), Living: engine.Create{Spec: sandbox.Spec{Network: c.network}}})
		near, far := sdk.NewInMemoryTransports()
		go s.Run(t.Context(), far)
		list, err := connect(t, nil, near).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if strings.HasPrefix(tool.Name, "run_") && !strings.HasSuffix(tool.Description, c.want) {
				t.Errorf("%s: %s", tool.Name, tool.Description)
			}
		}
		s.Close()
	}
}

// TestBridge: a client on stdio uses the sandbox of a server, also when the server has forgotten its session.
func TestBridge(t *testing.T) {
	r, c := newRig(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var session atomic.Value
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Bridge(t.Context(), in, out,
			func(ctx context.Context, method string, h http.Header, body io.Reader) (*http.Response, error) {
				q, err := http.NewRequestWithContext(ctx, method, r.url+"?sandbox=work", body)
				if err != nil {
					return nil, err
				}
				q.Header = h
				if id := h.Get("Mcp-Session-Id"); id != "" {
					session.Store(id)
				}
				response, err := http.DefaultClient.Do(q)
				if err == nil && response.StatusCode/100 != 2 {
					response.Body.Close()
					kind := sandbox.Invalid
					if response.StatusCode == http.StatusNotFound {
						kind = sandbox.NotFound
					}
					return nil, &sandbox.Error{Kind: kind, Msg: response.Status}
				}
				return response, err
			})
	}()
	lines := bufio.NewReader(fromServer)
	ask := func(id int, method string, params map[string]any) string {
		t.Helper()
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if _, err := toServer.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	code := func(id int, code string) string {
		return ask(id, "tools/call", map[string]any{"name": "run_code", "arguments": map[string]any{"code": code}})
	}
	if got := ask(1, "initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}}); !strings.Contains(got, `"fumehood"`) {
		t.Fatal(got)
	}
	io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	if got := code(2, "x = 41"); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "succeeded") {
		t.Error(got)
	}
	if got := ask(3, "none", nil); !strings.Contains(got, `"id":3,`) && !strings.Contains(got, `"id":3}`) ||
		!strings.Contains(got, `"error"`) {
		t.Error(got)
	}
	q, _ := http.NewRequestWithContext(c.ctx, http.MethodDelete, r.url, nil)
	q.Header.Set("Mcp-Session-Id", session.Load().(string))
	if response, err := http.DefaultClient.Do(q); err != nil || response.StatusCode != 204 {
		t.Fatal(response, err)
	}
	if got := code(4, "x + 1"); !strings.Contains(got, `"id":4`) || !strings.Contains(got, "=\\u003e 42") &&
		!strings.Contains(got, "=> 42") {
		t.Error(got)
	}
	toServer.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(stepTimeout):
		t.Fatal("the bridge goes on without a client")
	}
}
