//go:build unix

package javascript_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// outcome describes a run: its value as text, the values displayed before, its exit code unless 0, its error, and its
// streams.
func outcome(o langtest.Outcome) string {
	var b strings.Builder
	for _, s := range o.Results {
		mark := "="
		if !s.Main {
			mark = "~"
		}
		fmt.Fprintf(&b, "%s%s ", mark, s.Forms[len(s.Forms)-1].Data)
	}
	if o.Exit != 0 {
		fmt.Fprintf(&b, "exit %d ", o.Exit)
	}
	if o.Error != nil {
		fmt.Fprintf(&b, "%s(%s) ", o.Error.Name, o.Error.Value)
	}
	return b.String() + o.Stdout
}

// One context runs all of these, in order.
func TestDriverRuns(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	module := filepath.Join(d.Dir, "own.mjs")
	if err := os.WriteFile(module, []byte("export default 'whole'; export const part = 'part'"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"let a = 1; console.log('hi'); a", "=1 hi\n"},
		{"const a = 2; class A {}; a + 1", "=3 "},
		{"let a = await Promise.resolve(4)\nfunction f() { return a }", ""},
		{"await new Promise(r => setTimeout(r, 5)); f()", "=4 "},
		{"setTimeout(() => {}, 1)", ""}, {"setInterval(() => {}, 1e6).unref()", ""}, {"setImmediate(() => {})", ""},
		{"Promise.resolve('awaited')", "='awaited' "},
		{"`\nconst a = 7\nimport b from 'b'\n`.length + ' ' + /import('x')/.source", "=\"31 import('x')\" "},
		{"import whole, {part as p} from './own.mjs'\nimport * as os from \"node:os\";\n[whole, p, typeof os.cpus]",
			"=[ 'whole', 'part', 'function' ] "},
		{"(await import('./own.mjs')).part + require('path').basename(__filename) + module.paths.length.toString()[0]",
			""},
		{"throw new TypeError('bad')", "exit 1 TypeError(bad) "},
		{"throw 3", "exit 1 Uncaught(3) "},
		{"throw null", "exit 1 Uncaught(null) "},
		{"let = ;", "exit 1 SyntaxError(Unexpected token ';') "},
		{"Promise.reject(new RangeError('late'))", "exit 1 RangeError(late) "},
		{"try { process.exit(3) } catch {} finally { console.log('no') }", "exit 3 "},
		{"await new Promise(r => setTimeout(r, 5)); process.exit(4)", "exit 4 "},
		{"process.exitCode = 5; a", "=4 exit 5 "},
		{"export const e = 1\nexport default function fe() { return e }\nexport { e as f, fe }; fe()", "=1 "},
		{"export default class {}\nexport async function g() { return 7 }\nexport * from 'fs'\nawait g()", "=7 "},
		{"export { sep } from 'path'; export default 5\n;({export: 1}).export", "=1 "},
		{"[import.meta.resolve('fs'), import.meta.resolve('node:fs'), process.argv.length].join()",
			"='node:fs,node:fs,2' "},
		{"display({b: 1}); display(2n); undefined", "~{ b: 1 } ~2n "},
		{"new Proxy({}, {get() { throw 1 }})", "={} "},
		{"({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('mine') }})",
			"=a value that cannot be shown: Error: mine "},
		{"setTimeout(() => { throw new Error('x') }); Promise.reject(1); process.nextTick(() => { throw 2 }); -0",
			"=-0 "},
		{"await new Promise(r => setTimeout(r, 5)); process.stdin.resume(); await new Promise(r => " +
			"process.stdin.on('end', r)); 'end'", "='end' "},
		{"process.stdout.end('last\\n'); console.log('more')", "last\nmore\n"},
		{"let n = 0; setInterval(() => n++, 1).unref(); n", "=0 "},
		{"await new Promise(r => setTimeout(r, 20)); n > 1", "=true "},
	} {
		if got := outcome(d.Run(c[0])); got != c[1] && c[1] != "" {
			t.Errorf("%s\n got %q\nwant %q", c[0], got, c[1])
		}
	}
}

func TestDriverValue(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	types := func(code string) (names []string, last []byte) {
		o := d.Run(code)
		if len(o.Results) != 1 {
			t.Fatalf("%s: %+v", code, o)
		}
		for _, f := range o.Results[0].Forms {
			names, last = append(names, f.Type), f.Data
		}
		return names, last
	}
	for code, want := range map[string]string{
		"({a: [1, 'x', null, true]})":              "application/json text/plain",
		"({a: undefined})":                         "text/plain",
		"({get a() { throw 1 }})":                  "text/plain",
		"let r = {}; r.r = r; r":                   "text/plain",
		"new Map()":                                "text/plain",
		"'x'.repeat(300e3)":                        "text/plain",
		"Buffer.from('89504e470d0a1a0a00', 'hex')": "image/png text/plain",
		"({[Symbol.for('Jupyter.display')]: () => ({'text/html': '<b>'})})": "text/html text/plain",
	} {
		if got, _ := types(code); strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", code, got, want)
		}
	}
	if _, text := types("'ä'.repeat(3e6)"); len(text) > 1<<20 || !strings.HasSuffix(string(text), " more bytes") &&
		!strings.HasSuffix(string(text), "more characters") {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-40:])
	}
}

func TestDriverError(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	o := d.Run("function deep() {\n  throw new Error('low', {cause: new Error('cause')})\n}\ndeep()")
	want := "Error: low\n    at deep (run-1.js:2:9)\n    at run-1.js:4:1 {\n  [cause]: Error: cause\n      at deep " +
		"(run-1.js:2:34)\n      at run-1.js:4:1\n}"
	if o.Error == nil || o.Error.Traceback != want {
		t.Errorf("%+v", o.Error)
	}
	shown := "run-1.js:2\n  throw new Error('low', {cause: new Error('cause')})\n        ^\n\n" + want + "\n"
	if o.Stderr != shown {
		t.Errorf("got %s\nwant %s", o.Stderr, shown)
	}
	if o := d.Run("deep.x = 1;\nfor (;;) {{"); o.Error == nil || !strings.HasPrefix(o.Stderr, "run-2.js:3\n") &&
		!strings.HasPrefix(o.Stderr, "run-2.js:4\n") {
		t.Errorf("%+v", o)
	}
	if o := d.Run("throw new Error('x'.repeat(2e6))"); o.Error == nil || len(o.Error.Value) != 2e6 ||
		len(o.Error.Traceback) < 2e6 {
		t.Errorf("a long message: %d bytes", len(o.Error.Value))
	}
	o = d.Run("Promise.reject(new Error('nobody')); 1")
	if o.Error != nil || !strings.Contains(o.Stderr, "Error: nobody\n    at run-4.js:1:16\n") ||
		strings.Contains(o.Stderr, "fumehood") {
		t.Errorf("%+v", o)
	}
}

// SIGINT ends each of these; the code has printed an empty line by then. State stays, and the next run is in order.
// Code that awaits prints afterwards: a signal in the microseconds when V8 takes the run's promise crashes Node 20
// (ToLocalChecked in ProtocolPromiseHandler::add). Code whose child takes the signal too goes on until Node's thread
// for signals has passed it on.
func TestDriverInterrupt(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	d.Run("let state = 41; const sleep = ms => new Promise(r => setTimeout(r, ms))")
	for name, code := range map[string]string{
		"loop":      "console.log(); while (true);",
		"caught":    "console.log(); for (;;) try { for (;;); } catch {} finally { for (let i = 0; i < 1e3; i++); }",
		"microtask": "await null; console.log(); for (;;);",
		"await":     "setImmediate(console.log); await sleep(1e6)",
		"after":     "await sleep(2); console.log(); for (;;);",
		"left":      "Promise.resolve().then(() => { for (;;); }); console.log(); for (;;);",
		"value":     "console.log(); ({[Symbol.for('nodejs.util.inspect.custom')]() { for (;;); }})",
		"command": "try { require('child_process').execSync('echo; exec sleep 600', {stdio: 'inherit'}) } catch " +
			"{} for (;;);",
		"pattern": "console.log(); /(a+)+b/.test('a'.repeat(60))",
	} {
		t.Run(name, func(t *testing.T) {
			d.Start(code)
			d.Printed(1)
			d.Interrupt()
			if o := d.Wait(); o.Error == nil || o.Error.Name != "KeyboardInterrupt" || o.Exit != 1 {
				t.Errorf("%+v", o)
			}
			if o := d.Run("await sleep(1); state + 1"); outcome(o) != "=42 " {
				t.Errorf("after it: %+v", o)
			}
		})
	}
}

// Interrupts that come at any moment around the ends of a run cost neither the driver nor a report.
func TestDriverInterruptRace(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	for i := range 300 {
		d.Start([]string{"for (let i = 0; i < 1e4; i++);", "await new Promise(setImmediate)", "1"}[i%3])
		for range i % 4 {
			d.Interrupt()
		}
		if o := d.Wait(); o.Error != nil && o.Error.Name != "KeyboardInterrupt" {
			t.Fatalf("%+v", o)
		}
	}
	o := d.Run("console.log(42)")
	for o.Error != nil && o.Error.Name == "KeyboardInterrupt" { // Node passes a signal on some time after it came
		o = d.Run("console.log(42)")
	}
	if o.Stdout != "42\n" || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
}

// tamper is code that replaces every method of a class.
func tamper(class string) string {
	return "for (const n of Object.getOwnPropertyNames(" + class + ".prototype)) try { if (n !== 'constructor') " +
		class + ".prototype[n] = () => { throw 1 } } catch {}"
}

// Code that changes globals harms only itself.
func TestDriverHostile(t *testing.T) {
	for _, code := range []string{
		"for (const n of ['Object', 'Promise', 'JSON', 'Symbol', 'Buffer', 'Error', 'process', 'setImmediate', " +
			"'Reflect', 'display']) globalThis[n] = undefined",
		tamper("String"), tamper("Promise"), tamper("RegExp"), tamper("Uint8Array"), tamper("Map"), tamper("Set"),
		tamper("Function"),
		"Object.defineProperty(Object.prototype, 'objectId', {get() { throw 1 }}); " +
			"Object.prototype.exceptionDetails = 1; Object.prototype.value = 2",
		"Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 'x'",
		"Object.defineProperty(process, 'stdout', {value: null}); console = 1",
		"process.removeAllListeners(); clearInterval = setTimeout = null; process.exitCode = {}",
		"__fumehood(); try { globalThis.__fumehood = 1 } catch {} delete globalThis.__fumehood",
	} {
		t.Run(code, func(t *testing.T) {
			d := langtest.StartDriver(t, javascript.Language, nil)
			d.Run("const { log } = console; " + code)
			if o := d.Run("let x = 40; await null; x + 2"); o.Error != nil || len(o.Results) != 1 {
				t.Errorf("%s: %+v", code, o)
			}
		})
	}
	d := langtest.StartDriver(t, javascript.Language, nil)
	d.Start("require('fs').closeSync(3)")
	d.Wait()
	d.Ended()
}

func TestDriverChildren(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	o := d.Run("require('child_process').execSync('test -e /proc/self/fd/4 && echo open || echo closed').toString()")
	if outcome(o) != "='closed\\n' " {
		t.Errorf("%+v", o)
	}
}

func TestDriverComplete(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	d.Run("let täglich = {heute: 1, get other() { for (;;); }}")
	for code, want := range map[string]string{"1 + tä": "täglich", "täglich.heu": "heute", "tä.": "",
		"process.cw": "cwd", "täglich.other.a": ""} {
		start, names := d.Complete(code+" rest", len(code))
		if want == "" && len(names) == 0 {
			continue
		}
		if !slices.Contains(names, want) || !strings.HasPrefix(want, code[start:]) {
			t.Errorf("%s: %d %v", code, start, names)
		}
	}
}
