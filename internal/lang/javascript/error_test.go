package javascript

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

const frames = "    at Object.<anonymous> (/w/a.js:1:7)\n    at node:internal/main/run_main_module:28:49"

// Output of Node 18 and 20 for small programs, with fewer frames.
var errorTests = []struct {
	name, stderr   string
	wantName, want string
}{
	{"error", "/w/a.js:1\nthrow new Error(\"boom\\nsecond\")\n^\n\nError: boom\nsecond\n" + frames +
		"\n\nNode.js v20.20.2\n", "Error", "boom\nsecond"},
	{"number", "\n/w/a.js:1\nthrow 1\n^\n1\n(Use `node --trace-uncaught ...` to show where the exception was " +
		"thrown)\n\nNode.js v20.20.2\n", "Uncaught", "1"},
	{"null", "\n/w/a.js:1\nthrow null\n^\nnull\n(Use `node --trace-uncaught ...` to show where the exception was " +
		"thrown)\n\nNode.js v20.20.2\n", "Uncaught", "null"},
	{"object", "\n/w/a.js:1\nthrow {a:1}\n^\n{ a: 1 }\n\nNode.js v20.20.2\n", "Uncaught", "{ a: 1 }"},
	{"object, Node 18", "/w/a.js:1\nthrow {a:1}\n^\n\n[object Object]\n(Use `node --trace-uncaught ...` to show " +
		"where the exception was thrown)\n\nNode.js v18.19.0\n", "Uncaught", "[object Object]"},
	{"class", "/w/a.js:1\nthrow new MyErr(\"x\")\n^\n\nMyErr [Error]: x\n" + frames +
		" {\n  code: 5\n}\n\nNode.js v20.20.2\n", "MyErr", "x"},
	{"rejected value, Node 20",
		"node:internal/process/promises:389\n      new UnhandledPromiseRejection(reason);\n      ^\n\n" +
			"UnhandledPromiseRejection: This error originated either by throwing. The promise rejected with the " +
			"reason " +
			"\"1\".\n" +
			"    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7) {\n  code: " +
			"'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v20.20.2\n",
		"UnhandledPromiseRejection",
		"This error originated either by throwing. The promise rejected with the reason \"1\"."},
	{"rejected value, Node 18",
		"node:internal/process/promises:288\n            triggerUncaughtException(err, true /* fromPromise */);\n  " +
			"          ^\n\n[UnhandledPromiseRejection: rejected with the reason \"1\".] {\n  code: " +
			"'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v18.19.0\n",
		"UnhandledPromiseRejection", "rejected with the reason \"1\"."},
	{"rejected error", "/w/a.js:1\nPromise.reject(new TypeError(\"rej\"))\n               ^\n\nTypeError: rej\n" +
		frames + "\n\nNode.js v20.20.2\n", "TypeError", "rej"},
	{"syntax", "/w/a.js:1\nlet a = ;\n        ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe " +
		"(node:internal/modules/cjs/loader:1464:18)\n\nNode.js v20.20.2\n", "SyntaxError", "Unexpected token ';'"},
	{"code", "node:internal/errors:541\n      throw error;\n      ^\n\nTypeError [ERR_INVALID_ARG_TYPE]: The " +
		"\"size\" argument\n    at new alloc (node:buffer:392:3) {\n  code: 'ERR_INVALID_ARG_TYPE'\n}\n\nNode.js " +
		"v20.20.2\n", "TypeError", "The \"size\" argument"},
	{"module", "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module 'nope'\n" +
		"Require stack:\n- /w/a.js\n" + frames +
		" {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/w/a.js' ]\n}\n\nNode.js v20.20.2\n",
		"Error", "Cannot find module 'nope'\nRequire stack:\n- /w/a.js"},
	{"no stack", "/w/a.js:1\nthrow e\n^\n\n[Error: nostack]\n\nNode.js v20.20.2\n", "Error", "nostack"},
	{"no stack, properties", "/w/a.js:1\nthrow e\n^\n\n[Error: ENOENT: no such file] {\n  errno: -2,\n  code: " +
		"'ENOENT'\n}\n\nNode.js v20.20.2\n", "Error", "ENOENT: no such file"},
	{"cause", "/w/a.js:1\nthrow e\n^\n\nError: outer\n" + frames +
		" {\n  [cause]: Error: inner\n      at Object.<anonymous> (/w/a.js:1:32)\n}\n\nNode.js v20.20.2\n", "Error",
		"outer"},
	{"assertion", "node:assert:90\n  throw new AssertionError(obj);\n  ^\n\nAssertionError [ERR_ASSERTION]: " +
		"Expected values to be strictly equal:\n\n1 !== 2\n\n" + frames + " {\n  expected: 2\n}\n\nNode.js v20.20.2\n",
		"AssertionError", "Expected values to be strictly equal:\n\n1 !== 2"},
	{"no message", "/w/a.js:1\nthrow new Error()\n^\n\nError\n" + frames + "\n\nNode.js v20.20.2\n", "Error", ""},
	{"printed by the program", "start\nReferenceError: x is not defined\n" + frames + "\n", "ReferenceError",
		"x is not defined"},
	{"printed, properties", "Error: a\n" + frames + " {\n  code: 5\n}\n", "Error", "a"},
	{"printed, then more", "Error: a\n" + frames + "\nand then more\n", "", ""},
	{"a message", "usage: main.js FILE\n", "", ""},
	{"nothing", "", "", ""},
	{"version alone", "Node.js v20.20.2\n", "", ""},
	{"marker alone", "^\n\nNode.js v20.20.2\n", "", ""},
}

func TestParseError(t *testing.T) {
	for _, tt := range errorTests {
		t.Run(tt.name, func(t *testing.T) {
			got := ParseError([]byte(tt.stderr))
			if tt.wantName == "" {
				if got != nil {
					t.Fatalf("got %+v, want none", *got)
				}
				return
			}
			if got == nil {
				t.Fatal("got none")
			}
			if got.Name != tt.wantName || got.Value != tt.want {
				t.Errorf("got %q %q, want %q %q", got.Name, got.Value, tt.wantName, tt.want)
			}
			if strings.Contains(got.Traceback, "Node.js v") {
				t.Errorf("the version is part of the traceback: %q", got.Traceback)
			}
		})
	}
}

func FuzzParseError(f *testing.F) {
	for _, tt := range errorTests {
		f.Add([]byte(tt.stderr))
	}
	f.Fuzz(func(t *testing.T, stderr []byte) {
		e := ParseError(stderr)
		if e == nil {
			return
		}
		if e.Name == "" || len(e.Name) > trace.MaxName || len(e.Value) > trace.MaxValue ||
			len(e.Traceback) > trace.MaxTraceback {
			t.Errorf("out of bounds: %d %d %d", len(e.Name), len(e.Value), len(e.Traceback))
		}
		if !utf8.ValidString(e.Name + e.Value + e.Traceback) {
			t.Error("not UTF-8")
		}
	})
}
