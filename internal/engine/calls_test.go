package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var searchTool = sandbox.Tool{Name: "search", Description: "Searches.", Schema: []byte(`{"type": "object",
	"properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}}, "required": ["query"],
	"additionalProperties": false}`)}

// calling runs code whose calls answer replies to. It returns the printed text, the events and the end.
func calling(t *testing.T, s *engine.Sandbox, req engine.RunRequest,
	answer func(x *engine.Run, c sandbox.Call)) (string, []engine.Event, *engine.Ended) {
	t.Helper()
	req.Background = true
	x, err := s.Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	var events []engine.Event
	var ended *engine.Ended
	err = x.Follow(within(t), 0, func(e engine.Event) error {
		switch {
		case e.Call != nil:
			answer(x, *e.Call)
		case e.Ended != nil:
			ended = e.Ended
		case e.Data != nil:
			printed.Write(e.Data)
		}
		e.Data = nil
		events = append(events, e)
		return nil
	})
	if err != nil || ended == nil {
		t.Fatalf("follow: %v", err)
	}
	return printed.String(), events, ended
}

func withTools(language, text string, tools ...sandbox.Tool) engine.RunRequest {
	req := code(language, text)
	req.Request.Calls.Tools = tools
	return req
}

// TestCalls: code calls tools of the caller, also from threads; failures are exceptions.
func TestCalls(t *testing.T) {
	_, s := contextRig(t)
	for name, c := range map[string]struct{ code, want string }{
		"value": {"print('before', end=''); print(search('a', limit=2))", "before[{'limit': 2, 'query': 'a'}, 1]\n"},
		"keyword": {"import inspect; print(search(query='b')[0], inspect.signature(search), search.__doc__)",
			"{'query': 'b'} (query: str, limit: int = ...) Searches.\n"},
		"error": {"try: search('fail')\nexcept ToolError as e: print(e)", "ValueError: no\n"},
		"schema": {"try: search('a', limit=0)\nexcept ToolError as e: print('schema' in str(e), 'limit' in str(e))",
			"True True\n"},
		"no argument": {"try: search()\nexcept TypeError as e: print(e)",
			"search() missing 1 required positional argument: 'query'\n"},
		"not JSON": {"try: search({1})\nexcept TypeError as e: print(e)",
			"an argument of a tool must be JSON: set is not\n"},
		"threads": {"from concurrent.futures import ThreadPoolExecutor as P\n" +
			"with P(8) as p: print(sorted(r[0]['query'] for r in p.map(search, 'abcdefgh')))",
			"['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']\n"},
		"kept":  {"def twice(): return search('x')[1]\nprint(twice())", "1\n"},
		"large": {"print(len(search('large')))", "4000000\n"},
		"fork": {"import os\nif not (p := os.fork()):\n try: search('a')\n except RuntimeError as e: print(e)\n" +
			"else: os.waitpid(p, 0)", "a tool cannot be called in another process\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, ended := calling(t, s, withTools("python", c.code, searchTool), answerSearch(t))
			if got != c.want || ended.Status != sandbox.StatusSucceeded {
				t.Errorf("%s: %q, want %q", ended.Status, got, c.want)
			}
		})
	}
	if got, _, _ := calling(t, s, withTools("python", "try: search('a')\nexcept ToolError as e: print(e)",
		sandbox.Tool{Name: "other"}), answerSearch(t)); got != "this run has no tool \"search\"\n" {
		t.Errorf("a tool of an earlier run: %q", got)
	}
}

// TestContextTools: runs whose events are read can call the tools of their context, also in another server. Tools of a
// run replace those of the same name.
func TestContextTools(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	_, err := s.CreateContext(within(t), engine.ContextRequest{Name: "c", Language: "python", Calls: sandbox.Calls{
		Tools: []sandbox.Tool{searchTool, {Name: "any"}}, Limits: sandbox.CallLimits{Calls: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, want string, req engine.RunRequest) {
		t.Helper()
		req.Context = "c"
		if got, _, _ := calling(t, s, req, answerSearch(t)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	tries := "for i in range(3):\n try: print(search('a')[1])\n except ToolError as e: print(e)\n"
	check("limit", "1\n1\nthis run may call tools 2 times\n", code("python", tries))
	check("own", "('q',) ({}, 1)\n", withTools("python", "print(tuple(search.__annotations__), tuple(any()))",
		sandbox.Tool{Name: "search", Schema: []byte(`{"properties": {"q": {"type": "string"}}}`)}))
	plain := code("python", "try: search('a')\nexcept ToolError as e: print(e, end='')")
	plain.Context = "c"
	if got := string(do(t, s, plain).Stdout.Head); got != `this run has no tool "search"` {
		t.Errorf("a run without events: %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(stateDir)
	defer second.Close()
	s = k.resumed(t, second, s.ID())
	check("next server", "1\n", code("python", "print(any()[1])"))
	_, err = s.CreateContext(within(t), engine.ContextRequest{Language: "bash",
		Calls: sandbox.Calls{Tools: []sandbox.Tool{searchTool}}})
	if sandbox.KindOf(err) != sandbox.Unsupported {
		t.Errorf("tools of bash: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestToolFunctions: functions answer the calls, also of a context without followers, and of code that ends meanwhile.
func TestToolFunctions(t *testing.T) {
	_, s := contextRig(t)
	canceled := make(chan struct{})
	tools := []sandbox.Tool{
		{Name: "f", Call: func(_ context.Context, arguments []byte) (any, error) { return string(arguments), nil }},
		{Name: "odd", Call: func(context.Context, []byte) (any, error) { return func() {}, nil }},
		{Name: "large", Call: func(context.Context, []byte) (any, error) { return make([]byte, 17<<20), nil }},
		{Name: "hang", Call: func(ctx context.Context, _ []byte) (any, error) {
			<-ctx.Done()
			close(canceled)
			return nil, ctx.Err()
		}},
	}
	if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: "c",
		Calls: sandbox.Calls{Tools: tools}}); err != nil {
		t.Fatal(err)
	}
	req := code("python", "for call in f, odd, large:\n try: print(call(a=1))\n except ToolError as e: print(e)")
	req.Context = "c"
	want := "{\"a\":1}\njson: unsupported type: func()\n" +
		"the tool returned 23767726 bytes; an answer has at most 8388608\n"
	if got := string(do(t, s, req).Stdout.Head); got != want {
		t.Errorf("%q", got)
	}
	req.Request.Code, req.Request.Timeout = []byte("import _thread\n_thread.start_new_thread(hang, ())\n"+
		"import time; time.sleep(0.1)"), time.Second
	do(t, s, req)
	<-canceled
}

// answerSearch answers a call of searchTool with its arguments and its number.
func answerSearch(t *testing.T) func(*engine.Run, sandbox.Call) {
	return func(x *engine.Run, c sandbox.Call) {
		a := sandbox.CallAnswer{Value: fmt.Appendf(nil, "[%s, %d]", c.Arguments, 1)}
		switch {
		case strings.Contains(string(c.Arguments), "fail"):
			a = sandbox.CallAnswer{Error: "ValueError: no"}
		case strings.Contains(string(c.Arguments), "large"):
			a.Value = fmt.Appendf(nil, "%q", strings.Repeat("x", 4e6))
		}
		if err := x.Answer(within(t), c.ID, a); err != nil {
			t.Error(err)
		}
		if err := x.Answer(within(t), c.ID, a); err == nil {
			t.Errorf("a second answer: %v", err)
		}
	}
}

// TestCallBounds: the clock of a run stops while a call waits, within a bound; calls over a limit fail in the code.
func TestCallBounds(t *testing.T) {
	_, s := contextRig(t)
	slow := func(x *engine.Run, c sandbox.Call) {
		time.Sleep(1500 * time.Millisecond)
		_ = x.Answer(within(t), c.ID, sandbox.CallAnswer{}) // too late in some cases
	}
	tries := "for i in range(3):\n try: search('a'); print('ok')\n except ToolError as e: print(e)\n"
	for name, c := range map[string]struct {
		limits sandbox.CallLimits
		answer func(*engine.Run, sandbox.Call)
		code   string
		want   string
		status sandbox.Status
	}{
		"clock stops": {sandbox.CallLimits{}, slow, "search('a'); print('done')", "done\n", sandbox.StatusSucceeded},
		"bound": {sandbox.CallLimits{Wait: time.Millisecond}, slow, "search('a'); print('done')", "",
			sandbox.StatusTimeout},
		"clock goes on": {sandbox.CallLimits{}, slow, "search('a')\nwhile True: pass", "", sandbox.StatusTimeout},
		"no answer": {sandbox.CallLimits{Timeout: 50 * time.Millisecond}, func(*engine.Run, sandbox.Call) {}, tries,
			strings.Repeat("TimeoutError: no answer in 50ms\n", 3), sandbox.StatusSucceeded},
		"calls": {sandbox.CallLimits{Calls: 2}, answerSearch(t), tries, "ok\nok\nthis run may call tools 2 times\n",
			sandbox.StatusSucceeded},
		"bytes": {sandbox.CallLimits{Bytes: 60}, func(x *engine.Run, c sandbox.Call) {
			a := sandbox.CallAnswer{Value: []byte(`"` + strings.Repeat("x", 30) + `"`)}
			if sandbox.KindOf(x.Answer(within(t), c.ID, a)) == sandbox.TooLarge {
				answerSearch(t)(x, sandbox.Call{ID: c.ID, Arguments: []byte("fail")})
			}
		}, tries, "ok\nValueError: no\nthe calls of this run may have 60B of arguments and answers\n",
			sandbox.StatusSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			req := withTools("python", c.code, searchTool)
			req.Request.Calls.Limits, req.Request.Timeout = c.limits, time.Second
			if c.status == sandbox.StatusSucceeded { // also on a busy machine
				req.Request.Timeout = time.Minute
			}
			got, _, ended := calling(t, s, req, c.answer)
			if c.want != "" && got != c.want || ended.Status != c.status {
				t.Errorf("%s: %q, want %s: %q", ended.Status, got, c.status, c.want)
			}
		})
	}
}

// TestJavaScriptCalls: a tool is a function that returns a promise.
func TestJavaScriptCalls(t *testing.T) {
	_, s := contextRig(t)
	for name, c := range map[string]struct{ code, want string }{
		"object":     {"console.log('x', (await search({query: 'a', limit: 2}))[0])", "x { limit: 2, query: 'a' }\n"},
		"positional": {"const r = await search('b'); console.log(r[0].query, search.description)", "b Searches.\n"},
		"error": {"try { await search('fail') } catch (e) { console.log(e.name, e.message) }",
			"ToolError ValueError: no\n"},
		"schema": {"search({query: 1}).catch(e => console.log(/query/.test(e.message)))", ""},
		"many": {"console.log((await Promise.all([...'abcdef'].map(q => search(q)))).map(r => r[0].query).join(''))",
			"abcdef\n"},
		"late":     {"setTimeout(() => search('late').catch(e => console.error(e.message)), 1)", ""},
		"not JSON": {"try { await search(1n) } catch (e) { console.log(e.name) }", "TypeError\n"},
		"tampered": {"for (const k of ['parse', 'stringify']) JSON[k] = null; const P = Promise; Promise = null;" +
			"console.log((await search('t'))[0].query); globalThis.Promise = P", "t\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, ended := calling(t, s, withTools("javascript", c.code, searchTool), answerSearch(t))
			if c.want != "" && got != c.want || ended.Status != sandbox.StatusSucceeded {
				t.Errorf("%s: %q, want %q", ended.Status, got, c.want)
			}
		})
	}
}

// TestHostileCalls: what code writes to the channel of its driver ends its context at worst.
func TestHostileCalls(t *testing.T) {
	_, s := contextRig(t)
	forge := "import gc\ndriver = next(o for o in gc.get_objects() if type(o) is dict and 'write_pending' in o)\n" +
		"def call(id, name='search', arguments='{\"query\": \"a\"}', run=None):\n" +
		" driver['send'](b'call', run or driver['run_id'], id.encode(), name.encode(), arguments.encode())\n"
	silent := func(*engine.Run, sandbox.Call) {}
	for name, c := range map[string]struct {
		code   string
		events int // calls that the client sees
		ended  bool
	}{
		"another run":   {"call('1', run=b'x')", 0, false},
		"repeated id":   {"call('x'); call('x')", 1, true},
		"empty id":      {"call('')", 0, true},
		"long id":       {"call('x' * 100)", 0, true},
		"too many":      {"for i in range(40): call('c%d' % i)", 32, true},
		"not JSON":      {"call('x', arguments='{')", 0, false},
		"not an object": {"call('x', arguments='[1]')", 0, false},
		"deep":          {"call('x', arguments='{\"query\":' * 100 + '1' + '}' * 100)", 0, false},
		"surrogate":     {"call('x', arguments='{\"query\": \"\\\\ud800\"}')", 1, false},
		"twice":         {"call('x', arguments='{\"query\": 1, \"query\": \"a\"}')", 1, false},
		"unknown":       {"call('x', name='é' * 30)", 0, false},
		"long name":     {"call('x', name='x' * 200)", 0, true},
		"large":         {"call('x', arguments='{\"query\": \"' + 'x' * (2 << 20) + '\"}')", 0, false},
		"end": {"for i in range(1100):\n call('e%d' % i, name='none')\n" +
			" while driver['request'] is None: driver['receive']()\n driver['request'] = None\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			req := withTools("python", forge+c.code+"\nprint('on')", searchTool)
			req.Request.Calls.Limits.Calls = 50
			got, events, ended := calling(t, s, req, silent)
			seen := 0
			for _, e := range events {
				if e.Call != nil {
					seen++
					if !utf8.Valid(e.Call.Arguments) || !json.Valid(e.Call.Arguments) {
						t.Errorf("arguments %q", e.Call.Arguments)
					}
				}
			}
			lost := ended.Status != sandbox.StatusSucceeded
			if seen != c.events || lost != c.ended || !lost && got != "on\n" {
				t.Errorf("%s: %d calls seen, %.300q", ended.Status, seen, got)
			}
		})
	}
}
