package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

type object map[string]any

// operation is a request, which is repeated.
type operation struct {
	method, path string
	query        string // with "?"; no part of the name
	note         string // distinguishes requests with the same path
	body         []byte
	header       map[string]string
	chunked      bool       // each byte of the body is a chunk
	stream       []byte     // follows once the server has switched protocols
	refused      bool       // the answer is an error of the client
	runs         bool       // it runs code, so slots bound it
	undo         *operation // follows each, so that it can be repeated
}

func (o *operation) name() string { return strings.TrimSpace(o.method + " " + o.path + " " + o.note) }

func get(path string) operation { return operation{method: "GET", path: path} }

func post(path, note string, body any) operation {
	return operation{method: "POST", path: path, note: note, body: encoded(body)}
}

func run(path, note string, request object) operation {
	o := post(path, note, request)
	o.runs = true
	return o
}

func refused(o operation) operation {
	o.refused = true
	return o
}

func undone(o, undo operation) operation {
	o.undo = &undo
	return o
}

// caller calls a server.
type caller struct {
	server  *liveserver.Server
	sandbox string // id of the sandbox "s0"
	token   string // of E2B's wire for it
	run     string // id of a run with many events in it

	container string // id of one of OpenAI's, with many files
}

func (c *caller) request(ctx context.Context, o *operation) (*http.Request, error) {
	var body io.Reader = bytes.NewReader(o.body)
	if o.chunked {
		body = iotest.OneByteReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, o.method, c.server.URL+o.path+o.query, body)
	if err != nil {
		return nil, err
	}
	if len(o.body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range o.header {
		request.Header.Set(name, value)
	}
	return request, nil
}

// call sends a request, and then the one that undoes it.
func (c *caller) call(ctx context.Context, o *operation) (answer []byte, err error) {
	if o.stream != nil {
		return nil, c.converse(ctx, o)
	}
	request, err := c.request(ctx, o)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	answer, err = io.ReadAll(response.Body)
	class := response.StatusCode / 100
	if (class == 4) != o.refused || class == 5 {
		err = fmt.Errorf("%s: %d: %.300s", o.name(), response.StatusCode, answer)
	}
	_ = response.Body.Close()
	if err == nil && o.undo != nil {
		_, err = c.call(ctx, o.undo)
	}
	return answer, err
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // every value of this program can be encoded
	}
	return text
}

const (
	sandboxes = 30
	volumes   = 15 // of 16 that a key may have
	root      = "/v1/sandboxes"
	inside    = root + "/s0"
)

// prepare fills the server, so that lists are long and records are large, and returns the operations.
func (c *caller) prepare(ctx context.Context) ([]operation, error) {
	large := object{}
	for i := range 16 {
		large[fmt.Sprint("key", i)] = strings.Repeat("v", 200)
	}
	network := object{"allow": []string{"example.org"}}
	var list []operation
	for i := range sandboxes {
		list = append(list, post(root, "", object{"name": fmt.Sprint("s", i), "metadata": large, "network": network}))
	}
	for range 200 {
		list = append(list, run(root+"/s1/run", "", object{"language": "bash", "code": "echo 1"}))
	}
	for i := range volumes {
		list = append(list, post("/v1/volumes", "", object{"name": fmt.Sprint("v", i)}))
	}
	list = append(list,
		run(inside+"/run", "", object{"language": "bash", "code": "mkdir d; cd d; touch f{1..2000}"}),
		run(inside+"/run", "", object{"command": []string{"python3", "-m", "http.server", "8000"}, "background": true,
			"limits": object{"timeout_s": 3600}}),
		run(inside+"/run", "", object{"command": []string{"python3", "-c", sink}, "background": true,
			"limits": object{"timeout_s": 3600}}),
		post(inside+"/contexts", "", object{"language": "python", "name": "c"}))
	for i := range list {
		if _, err := c.call(ctx, &list[i]); err != nil {
			return nil, err
		}
	}
	var err error
	if c.sandbox, err = c.ask(ctx, get(inside), "id"); err != nil {
		return nil, err
	}
	if c.container, err = c.ask(ctx, post("/openai/v1/containers", "", object{"name": "files"}), "id"); err != nil {
		return nil, err
	}
	touch := run(root+"/"+strings.TrimPrefix(c.container, "cntr_")+"/run", "", object{"language": "bash",
		"code": "touch f{1..2000}"})
	if _, err = c.call(ctx, &touch); err != nil {
		return nil, err
	}
	connect := post("/sandboxes/"+c.sandbox+"/connect", "", object{})
	if c.token, err = c.ask(ctx, connect, "envdAccessToken"); err != nil {
		return nil, err
	}
	c.run, err = c.ask(ctx, run(inside+"/run", "", object{"language": "python",
		"code": "for i in range(20000): print(i, flush=True)"}), "id")
	return slices.Concat(c.lists(), c.files(), c.changes(large, network), c.e2b(), c.otherWires(), c.hostile(),
		c.streams(), c.running()), err
}

// ask sends a request, and returns a text of its answer.
func (c *caller) ask(ctx context.Context, o operation, field string) (value string, err error) {
	text, err := c.call(ctx, &o)
	if err != nil {
		return "", err
	}
	var answer object
	err = json.Unmarshal(text, &answer)
	if value, is := answer[field].(string); is && err == nil {
		return value, nil
	}
	return "", fmt.Errorf("%s: no %s in %.200s", o.name(), field, text)
}

// lists are requests that change nothing.
func (c *caller) lists() (list []operation) {
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/", "/v1/capabilities",
		"/v1/languages", "/v1/packages", "/v1/images", "/v1/volumes", root, root + "?limit=5", inside,
		inside + "?include=policy", inside + "/stats", root + "/s1/runs", inside + "/contexts",
		inside + "/network", inside + "/runs/" + c.run, inside + "/runs/" + c.run + "?text=1",
		inside + "/runs/" + c.run + "/events?follow=0", inside + "/contexts/c/state", inside + "/ports/8000/"} {
		list = append(list, get(path))
	}
	packed := get("/")
	packed.note, packed.header = "(packed)", map[string]string{"Accept-Encoding": "gzip"}
	return append(list, packed, refused(get("/nothing")), refused(get(root+"/none")))
}

// files are transfers of files.
func (c *caller) files() []operation {
	put := func(path, kind string, content []byte) operation {
		return operation{method: "PUT", path: inside + path, body: content,
			header: map[string]string{"Content-Type": kind}}
	}
	const data = "application/octet-stream"
	small, chunked := put("/files/a", data, []byte("hello")), put("/files/a", data, make([]byte, 100_000))
	chunked.note, chunked.chunked = "(chunks of a byte)", true
	return []operation{put("/files/b", data, make([]byte, 5_000_000)), get(inside + "/files/b"), chunked, small,
		get(inside + "/files/a"), get(inside + "/files/a?stat=1"), get(inside + "/files?path=d"),
		get(inside + "/files/d?archive=tar"), get(inside + "/files/d?archive=zip"),
		put("/files/u?archive=tar", "application/x-tar", archive(1000)),
		undone(put("/files/x", data, []byte("hello")), operation{method: "DELETE", path: inside + "/files/x"}),
		undone(post(inside+"/mkdir", "", object{"path": "m"}), operation{method: "DELETE", path: inside + "/files/m"}),
		undone(post(inside+"/move", "", object{"from": "a", "to": "z"}),
			post(inside+"/move", "", object{"from": "z", "to": "a"})),
	}
}

// changes are requests of /v1 that change something, or are refused.
func (c *caller) changes(large, network object) []operation {
	patch := func(note string, body object) operation {
		return operation{method: "PATCH", path: inside, note: note, body: encoded(body)}
	}
	return []operation{
		patch("metadata", object{"metadata": large}),
		patch("limits", object{"limits": object{"timeout_s": 20}}),
		patch("network", object{"network": network}),
		undone(post("/v1/volumes", "", object{"name": "v"}), operation{method: "DELETE", path: "/v1/volumes/v"}),
		post(root, "(it exists)", object{"name": "s0"}),
		post(inside+"/contexts/c/complete", "", object{"code": "impo", "cursor": 4}),
		refused(post("/v1/run", "(an unknown language)",
			object{"language": "no", "code": strings.Repeat("x\n", 100_000)})),
		refused(post("/v1/run", "(short values)", object{"language": "no", "args": make([]string, 20_000)})),
	}
}

// e2b are operations of E2B's wire.
func (c *caller) e2b() (list []operation) {
	list = []operation{get("/sandboxes"), get("/v2/sandboxes?limit=5"), get("/v2/sandboxes?metadata=a%3Db"),
		get("/sandboxes/" + c.sandbox), post("/sandboxes/"+c.sandbox+"/timeout", "", object{"timeout": 300}),
		post("/sandboxes/"+c.sandbox+"/connect", "", object{"timeout": 300}),
		get("/sandboxes/" + c.sandbox + "/metrics"),
		refused(get("/files?username=user&path=/x&signature=v1_" + strings.Repeat("A", 43))), // of no sandbox
	}
	in := map[string]string{"E2b-Sandbox-Id": c.sandbox, "E2b-Sandbox-Port": "49983", "X-Access-Token": c.token}
	call := func(method string, body object) operation {
		o := post("/"+method, "", body)
		o.header = in
		return o
	}
	const files, dir = "filesystem.Filesystem/", "/workspace/e"
	read := get("/files?username=user&path=/workspace/a")
	read.header = in
	return append(list, read, call("process.Process/List", object{}),
		call(files+"Stat", object{"path": "/workspace/d"}),
		call(files+"ListDir", object{"path": "/workspace/d", "depth": 1}),
		undone(call(files+"MakeDir", object{"path": dir}), call(files+"Remove", object{"path": dir})),
		undone(call(files+"Move", object{"source": "/workspace/a", "destination": dir}),
			call(files+"Move", object{"source": dir, "destination": "/workspace/a"})))
}

// otherWires are operations of MCP and of OpenAI's wire.
func (c *caller) otherWires() (list []operation) {
	message := func(method, note string, params object) operation {
		o := post("/mcp?sandbox=s0", method+note, object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		o.header = map[string]string{"Accept": "application/json, text/event-stream"}
		return o
	}
	tool := func(name string, arguments object) operation {
		return message("tools/call", " "+name, object{"name": name, "arguments": arguments})
	}
	return []operation{get("/openai/v1/containers"), get("/openai/v1/containers?name=none"),
		get("/openai/v1/containers/" + c.container + "/files?limit=1"),
		message("tools/list", "", object{}), tool("list_files", object{"path": "d"}),
		tool("read_file", object{"path": "a"}),
		tool("write_file", object{"path": "w", "content": "hello"}),
	}
}

// running are operations that run code.
func (c *caller) running() []operation {
	bash := func(code string) object { return object{"language": "bash", "code": code} }
	stream := run(inside+"/run", "events", bash("echo 1"))
	stream.header = map[string]string{"Accept": "text/event-stream"}
	const noisy = "yes | head -c 900000"
	made := run(root, "and its end", object{"name": "new"})
	return []operation{run("/v1/run", "", bash("echo 1")), run("/v1/run", noisy, bash(noisy)),
		run("/v1/run", "(100 KB of code)", object{"language": "python", "code": strings.Repeat("x=1\n", 25_000)}),
		run(inside+"/run", "", bash("echo 1")), run(inside+"/run", noisy, bash(noisy)), stream,
		run(inside+"/run", "in a context", object{"language": "python", "code": "1+1", "context": "c"}),
		undone(made, operation{method: "DELETE", path: root + "/new"}),
	}
}

// archive returns a tar of small files.
func archive(files int) []byte {
	var text bytes.Buffer
	out := tar.NewWriter(&text)
	for i := range files {
		content := []byte("abc")
		h := &tar.Header{Name: fmt.Sprint("t/f", i), Mode: 0o644, Size: int64(len(content))}
		if err := out.WriteHeader(h); err != nil {
			panic(err) // into memory
		}
		_, _ = out.Write(content)
	}
	_ = out.Close()
	return text.Bytes()
}
