package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestState: variables of one context reach another, and a hostile driver costs at most its own context.
func TestState(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "x = {1: (2, b'3')}; y = [x, x]; f = open('/dev/null')"))
	from, err := s.Context(sandbox.DefaultContext)
	if err != nil {
		t.Fatal(err)
	}
	document, err := from.Export(within(t), nil)
	if err != nil || !strings.Contains(string(document), `"y":[{"$ref":0},{"$ref":0}]`) {
		t.Fatalf("%v: %s", err, document)
	}
	to, err := s.CreateContext(within(t), engine.ContextRequest{Name: "to", Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := to.Import(within(t), document)
	if err != nil || string(report) != `{"set":["x","y"],"missing":[]}` {
		t.Errorf("%v: %s", err, report)
	}
	in := func(text string) *sandbox.Result {
		req := code("python", text)
		req.Context = "to"
		return do(t, s, req)
	}
	if r := in("y[0] is y[1] is x and x"); value(r) != "{1: (2, b'3')}" {
		t.Errorf("%s", value(r))
	}
	for want, text := range map[sandbox.Kind][]byte{sandbox.TooLarge: make([]byte, engine.MaxState+1),
		sandbox.Invalid: []byte("{")} {
		if _, err := to.Import(within(t), text); sandbox.KindOf(err) != want {
			t.Errorf("want %v: %v", want, err)
		}
	}
	in("import gc\ndriver = next(o for o in gc.get_objects() if type(o) is dict and 'write_pending' in o)\n" +
		"send = driver['send']\n" +
		"def forged(id, data): send(b'state', id, b'1', answer)\ndriver['exported'] = forged; driver['PARTS'].clear()")
	for what, answer := range map[string]string{"no JSON": "b'{'", "no text": "b'\"\\xff\"'",
		"too large": "b'[' + b' ' * (21 << 20) + b']'"} {
		if testing.Short() && what == "too large" {
			continue // seconds
		}
		in("answer = " + answer)
		if text, err := to.Export(within(t), []string{"x"}); err == nil || json.Valid(text) {
			t.Errorf("%s: %v, %.20q", what, err, text)
		}
	}
	bash, err := s.CreateContext(within(t), engine.ContextRequest{Name: "bash", Language: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bash.Export(within(t), nil)
	refused(t, "a language without documents", err, sandbox.Unsupported, "bash")
}

// TestJavaScriptState: variables of one context reach another; what cannot be carried is listed with the reason.
func TestJavaScriptState(t *testing.T) {
	_, s := contextRig(t)
	cell := func(context, text string) *sandbox.Result {
		t.Helper()
		req := code("javascript", text)
		req.Context = context
		r := do(t, s, req)
		if r.Status != sandbox.StatusSucceeded {
			t.Errorf("%s: %s", text, r.Stderr.Head)
		}
		return r
	}
	if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: "to", Language: "javascript"}); err != nil {
		t.Fatal(err)
	}
	cell("", `const fs = require("fs"), { join } = require("path"), bytes = new Uint8Array([1, 2, 255]), nil = null;
		let o = { a: [1, -0, NaN, undefined, 2n ** 70n, -3n], $x: "\ud800" }; o.self = o;
		var when = new Date(1e12), m = new Map([[o, new Set(["é"])]]), re = /a(b)/gi, err = new RangeError("far");
		const floats = Float64Array.of(1.5), buffer = Buffer.from("hi");
		const area = (r) => Math.round(twice(r)); function twice(r) { return 2 * r; }
		class Point { static n = 7; constructor(x) { this.x = x; } get double() { return twice(this.x); } }
		class Point3 extends Point {} ; let point = new Point3(4), pair = [point, point];
		const closed = ((k) => () => k)(1), promise = Promise.resolve(), proxy = new Proxy({}, {}), holes = [, 1];
		class Hidden { #x = 1 } const hidden = new Hidden(), got = { get x() { return 1; } }, symbol = Symbol("s");
		const late = 1, method = { f() {} }.f, weak = new WeakMap(), ended = new Date(NaN)`)
	from, err := s.Context(sandbox.DefaultContext)
	if err != nil {
		t.Fatal(err)
	}
	document, err := from.Export(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Missing []struct{ Name, Type, Reason string }
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		t.Fatal(err)
	}
	missing := []string{}
	for _, m := range parsed.Missing {
		missing = append(missing, m.Name)
	}
	slices.Sort(missing)
	if got := strings.Join(missing, " "); got != "closed got hidden holes method promise proxy symbol weak" {
		t.Errorf("missing: %s: %s", got, document)
	}
	to, err := s.Context("to")
	if err != nil {
		t.Fatal(err)
	}
	cell("to", "let o = 1; var late") // one that exists is replaced
	if report, err := to.Import(within(t), document); err != nil || !strings.Contains(string(report), `"missing":[]`) {
		t.Errorf("%v: %s", err, report)
	}
	checks := `[o.self === o, Object.is(o.a[1], -0), Object.is(o.a[2], NaN), 3 in o.a && o.a[3] === undefined,
		o.a[4] === 2n ** 70n, o.a[5] === -3n, o.$x === "\ud800", when.getTime() === 1e12, m.get(o).has("é"),
		re.source === "a(b)" && re.flags === "gi", err instanceof RangeError && err.message === "far", bytes[2] === 255,
		bytes.length === 3, floats[0] === 1.5, buffer instanceof Buffer && buffer.toString() === "hi",
		nil === null, area(2.1) === 4,
		Point.n === 7, point.double === 8, point instanceof Point3, pair[0] === point && pair[1] === point, late === 1,
		fs.existsSync(join("/", "tmp")), isNaN(ended)].map((ok, i) => ok ? "" : i).join(" ").trim()`
	if got := value(cell("to", checks)); got != "''" {
		t.Errorf("wrong: %s", got)
	}
	for text, want := range map[string]string{
		`{"version":2,"variables":{}}`: "not version 1", `{"version":1,"variables":[]}`: "not version 1",
		`{"version":1,"variables":{"a":{"$ref":0},"__x":1,"b-c":1,"d":{"$none":1},` +
			`"e":{"$source":{"name":"e","text":"1) + (2","language":"javascript"}},` +
			`"f":{"$source":{"name":"f","text":"def f(): 1"}},"g":{"$module":"evil"}}}`: "missing",
	} {
		report, err := to.Import(within(t), []byte(text))
		if !strings.Contains(string(report)+fmt.Sprint(err), want) || strings.Contains(string(report), `"set":["`) {
			t.Errorf("%s: %v, %s", text, err, report)
		}
	}
}
