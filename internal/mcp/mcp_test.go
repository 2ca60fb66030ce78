package mcp_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/mcp"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

const stepTimeout = 2 * time.Minute // bounds a step that hangs; nothing is measured against it

// client is a client of the SDK, connected to a real server on a real engine over the fake backend.
type client struct {
	t      *testing.T
	ctx    context.Context
	engine *engine.Engine
	*sdk.ClientSession
	progress chan string
}

// installer is a Packager that installs nothing and says that it does.
type installer struct{ sandbox.Packager }

func (installer) Supply(_ context.Context, need sandbox.PackageNeed, _ sandbox.Worker) (*sandbox.Supply, error) {
	need.Progress("installing " + need.Requirements[0])
	return &sandbox.Supply{Release: func() {}}, nil
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}, Languages: lang.All(),
		Slots: 16, Packages: installer{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func connect(t *testing.T, e *engine.Engine, over sdk.Transport) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	t.Cleanup(cancel)
	c := &client{t: t, ctx: ctx, engine: e, progress: make(chan string, 1000)}
	var err error
	c.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context,
			r *sdk.ProgressNotificationClientRequest) {
			c.progress <- r.Params.Message
		},
	}).Connect(ctx, over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func inMemory(t *testing.T) *client {
	t.Helper()
	e := newEngine(t)
	s := mcp.New(mcp.Config{Engine: e, Version: "test", Ahead: true})
	near, far := sdk.NewInMemoryTransports()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(t.Context(), far)
	}()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return connect(t, e, near)
}

// outcome is the result of a call.
type outcome struct {
	text    string
	images  []*sdk.ImageContent
	failed  bool
	Status  string
	Stdout  string
	Results []struct {
		Main bool
		Data map[string]string
	}
	Exception *sandbox.Exception
	Files     []struct {
		Path string
		Size int
	}
	Text string
	More bool
}

func (c *client) call(tool string, arguments map[string]any) *outcome {
	c.t.Helper()
	r, err := c.CallTool(c.ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	return c.outcome(r)
}

func (c *client) outcome(r *sdk.CallToolResult) *outcome {
	c.t.Helper()
	o := &outcome{failed: r.IsError}
	for _, content := range r.Content {
		switch content := content.(type) {
		case *sdk.TextContent:
			o.text += content.Text
		case *sdk.ImageContent:
			o.images = append(o.images, content)
		}
	}
	structured, err := json.Marshal(r.StructuredContent)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(structured, o); err != nil {
		c.t.Fatal(err)
	}
	return o
}

func (c *client) code(code string) *outcome {
	c.t.Helper()
	return c.call("run_code", map[string]any{"code": code})
}

const picture = `
class Picture:
    def _repr_png_(self):
        import base64
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Picture()`

func TestSession(t *testing.T) {
	c := inMemory(t)
	if o := c.code("x = 41\nprint('hello')"); o.text != "hello" || o.Status != "succeeded" {
		t.Errorf("%+v", o)
	}
	if o := c.code("x + 1"); o.text != "=> 42" || len(o.Results) != 1 || o.Results[0].Data["text/plain"] != "42" {
		t.Errorf("the state is lost: %+v", o)
	}
	if o := c.code(picture); len(o.images) != 1 || o.images[0].MIMEType != "image/png" ||
		!strings.HasPrefix(string(o.images[0].Data), "\x89PNG") {
		t.Errorf("%+v", o)
	}
	if o := c.code("1/0"); o.failed || o.Status != "failed" || o.Exception == nil ||
		o.Exception.Name != "ZeroDivisionError" || strings.Count(o.text, "ZeroDivisionError") != 1 {
		t.Errorf("%+v", o)
	}
	if o := c.code("import glvnone"); !strings.Contains(o.text,
		"To install it before the run, write a line %pip install glvnone in the code.") {
		t.Errorf("%+v", o)
	}
	if o := c.call("run_command", map[string]any{"command": "cat; pwd >&2; exit 3",
		"stdin": "in"}); o.Status != "failed" ||
		!strings.HasPrefix(o.text, "in\nstderr:\n/workspace\nstatus: failed, exit code 3") {
		t.Errorf("%+v", o)
	}
	c.call("write_file", map[string]any{"path": "a/b.txt", "content_base64": "aMOpbGxv"})
	if o := c.call("read_file", map[string]any{"path": "a/b.txt", "length": 2}); o.Text != "h" || !o.More ||
		!strings.Contains(o.text, "read on at offset 1") {
		t.Errorf("a part that ends within a character: %+v", o)
	}
	if o := c.call("list_files", map[string]any{"path": "a"}); len(o.Files) != 1 || o.Files[0].Path != "b.txt" ||
		o.Files[0].Size != 6 {
		t.Errorf("%+v", o)
	}
	long := c.code("print('a' * 100_000 + 'end')")
	if len(long.text) > 64<<10 || !strings.Contains(long.text, "end") || len(long.Stdout) > 64<<10 {
		t.Errorf("%d bytes of text, %d of stdout", len(long.text), len(long.Stdout))
	}
	_, file, _ := strings.Cut(strings.TrimRight(long.text, "."), "all of it at ")
	if o := c.call("read_file", map[string]any{"path": file, "offset": 100_000}); o.Text != "end\n" {
		t.Errorf("what was cut, at %q: %+v", file, o)
	}
	for _, wrong := range []struct {
		tool      string
		arguments map[string]any
		says      string
	}{
		{"read_file", map[string]any{"path": "none"},
			"this: file: /workspace/none does not exist."},
		{"write_file", map[string]any{"path": "x"}, "content"},
		{"run_code", map[string]any{"code": "1", "langauge": "python"}, `"langauge" is not an argument of this tool; ` +
			"it has code, language, packages, timeout_s. To fix it: did you mean language?"},
		{"run_code", map[string]any{"code": "1", "lang": "python"}, "did you mean language?"},
		{"run_code", map[string]any{"code": 1}, "this: code: expected a string, got a number."},
		{"run_code", map[string]any{"code": "1", "timeout_s": "5"}, "timeout_s: expected a number, got a string."},
		{"run_command", map[string]any{"command": []string{"ls"}}, "command: expected a string, got a list."},
		{"run_command", map[string]any{"argv": "ls"}, "argv: expected a list, got a string."},
		{"read_file", map[string]any{"path": "x", "offset": 1.5}, "offset: expected a whole number, got a number."},
	} {
		if o := c.call(wrong.tool, wrong.arguments); !o.failed || !strings.Contains(o.text, wrong.says) {
			t.Errorf("%s: %+v", wrong.tool, o)
		}
	}
	c.call("reset_sandbox", nil)
	if x, file := c.code("x"), c.call("read_file", map[string]any{"path": "a/b.txt"}); x.Exception == nil || !file.failed {
		t.Errorf("after a reset: %+v, %+v", x, file)
	}
}

func TestCancel(t *testing.T) {
	c := inMemory(t)
	c.code("x = 1")
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan error, 1)
	go func() {
		params := &sdk.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": "%pip install glvx\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)"}}
		params.SetProgressToken("token")
		_, err := c.CallTool(ctx, params)
		ended <- err
	}()
	select {
	case message := <-c.progress:
		if !strings.HasPrefix(message, "installing glvx\n") {
			t.Errorf("%q", message)
		}
		for !strings.HasSuffix(message, "begun\n") {
			select {
			case message = <-c.progress:
			case <-c.ctx.Done():
				t.Fatal("it does not begin")
			}
		}
	case <-c.ctx.Done():
		t.Fatal("there was no progress")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a canceled call succeeded")
	}
	if o := c.code("x"); o.text != "=> 1" {
		t.Errorf("the state is lost: %+v", o)
	}
}

// TestNewSandbox: when a sandbox has ended, the session keeps nothing of it, and the next call gets another one, and
// says so.
func TestNewSandbox(t *testing.T) {
	c := inMemory(t)
	c.code("x = 1")
	list, _, err := c.engine.Sandboxes("", nil, "", 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	last := func() weak.Pointer[engine.Sandbox] {
		s := c.engine.Living(list[0])
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return weak.Make(s)
	}()
	for runtime.GC(); last.Value() != nil; runtime.GC() {
		select {
		case <-c.ctx.Done():
			t.Fatal("the session keeps an ended sandbox")
		case <-time.After(time.Millisecond):
		}
	}
	if o := c.code("print(2)"); !strings.HasPrefix(o.text, "2\nnote: A new sandbox replaced the last one") {
		t.Errorf("%+v", o)
	}
	if o := c.code("print(2)"); o.text != "2" {
		t.Errorf("%+v", o)
	}
}
