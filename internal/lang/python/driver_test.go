//go:build unix

package python_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// One context: each run has the state of the earlier ones.
var conversation = []struct {
	code, stdout, stderr string // stderr holds its part
	value, failure       string // text of the last expression; name of the exception and its value
	exit                 int
}{
	{code: "x = 1\nprint(x)", stdout: "1\n"},
	{code: "x + 1", value: "2"},
	{code: "_ * 21", value: "42"},
	{code: "x;"},
	{code: "'a;b' # ;", value: "'a;b'"},
	{code: "None"},
	{code: "if x:\n    x"},
	{code: "import sys; __name__, sys.argv, sys.path[0], sorted(globals())",
		value: "('__main__', [''], '', " +
			"['__annotations__', '__builtins__', '__doc__', '__loader__', " +
			"'__name__', '__package__', '__spec__', 'sys', 'x'])"},
	{code: "open('file', 'w').fileno()", value: "3"},
	{code: "def f(y):\n    return 1 / y\n\nf(2)", value: "0.5"},
	{code: "try:\n    f(0)\nexcept Exception as e:\n    e.add_note('a note')\n    raise KeyError('k') from e", exit: 1,
		failure: "KeyError 'k'",
		stderr: "Traceback (most recent call last):\n  File \"<cell 11>\", line 2, in <module>\n    f(0)\n" +
			"  File \"<cell 10>\", line 2, in f\n    return 1 / y\n           ~~^~~\nZeroDivisionError: division by " +
			"zero\na note\n\n" +
			"The above exception was the direct cause of the following exception:\n\n" +
			"Traceback (most recent call last):\n  File \"<cell 11>\", line 5, in <module>\n    raise KeyError('k') " +
			"from e\nKeyError: 'k'\n"},
	{code: "x = 2\nprint('a", exit: 1, failure: "SyntaxError unterminated string literal (detected at line 2)",
		stderr: "  File \"<cell 12>\", line 2\n    print('a\n          ^\nSyntaxError: unterminated string literal " +
			"(detected at line 2)\n"},
	{code: "x = 3\nreturn", exit: 1, failure: "SyntaxError 'return' outside function"},
	{code: "x", value: "1"}, // code with a syntax error does not begin
	{code: "pritn", exit: 1, failure: "NameError name 'pritn' is not defined. Did you mean: 'print'?"},
	{code: "1/0", exit: 1, failure: "ZeroDivisionError division by zero",
		stderr: "line 1, in <module>\n    1/0\n    ~^~\nZeroDivisionError"},
	{code: "nowhere", exit: 1, failure: "NameError name 'nowhere' is not defined"},
	{code: "raise ExceptionGroup('g', [ValueError(1)])", exit: 1, failure: "ExceptionGroup g (1 sub-exception)",
		stderr: "    | ValueError: 1\n"},
	{code: "input('name? ')", stdout: "name? ", exit: 1,
		failure: "EOFError this context has no input: pass values as variables or files"},
	{code: "sys.stdin.read()", exit: 1,
		failure: "EOFError this context has no input: pass values as variables or files"},
	{code: "exit(3)", exit: 3},
	{code: "sys.exit('bye')", exit: 1, stderr: "bye\n"},
	{code: "input()", exit: 1, failure: "EOFError this context has no input: pass values as variables or files"},
	{code: "import asyncio\nasync def later():\n    await asyncio.sleep(0.001)\n    return 5\n" +
		"task = asyncio.ensure_future(later())\nawait asyncio.sleep(0, 6)", value: "6"},
	{code: "await task", value: "5"},
	{code: "async def bad(): 1/0\nawait bad()", exit: 1, failure: "ZeroDivisionError division by zero",
		stderr: "Traceback (most recent call last):\n  File \"<cell 26>\", line 2, in <module>\n"},
	{code: "for i in range(2):\n    !echo \"it's\" $((1 +\\\n 1)); exit 3\n_exit_code", stdout: "it's 2\nit's 2\n",
		value: "3"},
	{code: "print('''\n!echo''')\n!echo 1", stdout: "\n!echo\n1\n"},
	{code: "%pip --no-such-option 2>/dev/null; echo pip\n1", stdout: "pip\n", value: "1"},
	{code: "f(\n!ls\n)", exit: 1, failure: "SyntaxError invalid syntax"},
	{code: "from __future__ import annotations"},
	{code: "def g(a: nowhere): pass\ng.__annotations__", value: "{'a': 'nowhere'}"},
	{code: "import inspect, pickle\nclass C:\n    pass\ntype(pickle.loads(pickle.dumps(C()))) is C, " +
		"inspect.getsource(f)",
		value: `(True, 'def f(y):\n    return 1 / y\n')`},
	{code: "import os; os.mkdir('d'); os.chdir('d')"},
	{code: "os.environ.update(FUMEHOOD_PACKAGES='1', OLD=os.environ['PATH'], PATH='/none')\n!pip install -q 'a>=1' " +
		"b[c] && echo \"it's\" there",
		stdout: "it's there\n"}, // the engine has installed, and the rest is the shell's
	{code: "%pip install a 2>&1\n_exit_code", value: "0"},
	{code: "%pip install -r file -e . 2>/dev/null\nos.environ['PATH'] = os.environ.pop('OLD'); del " +
		"os.environ['FUMEHOOD_PACKAGES']\n_exit_code", value: "127"},
	{code: "!pwd | sed 's,.*/,,'", stdout: "d\n"},
	{code: "raise ValueError('x' * 2_000_000)", exit: 1, failure: "ValueError " + strings.Repeat("x", 2_000_000)},
	{code: "x = 7\r\nx\r\n", value: "7"},
	{code: "import os\nif os.fork() == 0:\n    sys.exit(5)\nos.waitstatus_to_exitcode(os.wait()[1])", value: "5"},
	{code: "sys.stdout.close(); sys.stdin = None"},
	{code: "print(x)", stdout: "7\n"},
}

func TestDriverConversation(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	if !strings.HasPrefix(d.Version, "3.11.") {
		t.Skipf("the texts are those of Python 3.11; this is %s", d.Version)
	}
	for _, c := range conversation {
		o := d.Run(c.code)
		value, failure := "", ""
		for _, shown := range o.Results {
			if form := shown.Forms[len(shown.Forms)-1]; shown.Main && form.Type == "text/plain" {
				value = string(form.Data)
			}
		}
		if o.Error != nil {
			failure = o.Error.Name + " " + o.Error.Value
			if o.Stderr != o.Error.Traceback+"\n" || strings.Contains(o.Stderr, "fumehood") {
				t.Errorf("%s\ntraceback %.1000s\nstderr %.1000s", c.code, o.Error.Traceback, o.Stderr)
			}
		}
		if o.Stdout != c.stdout || value != c.value || failure != c.failure || o.Exit != c.exit ||
			!strings.Contains(o.Stderr, c.stderr) {
			t.Errorf("%s\nvalue %q, failure %.1000q, exit code %d\nstdout %q\nstderr %.1000s", c.code, value, failure,
				o.Exit, o.Stdout, o.Stderr)
		}
	}
}

// Output streams by the line, while the code runs.
func TestDriverStreams(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Start("import os, time\nprint('first')\nwhile not os.path.exists('go'): time.sleep(0.001)\nprint('end', end='')")
	d.Printed(int64(len("first\n")))
	if err := os.WriteFile(d.Dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := d.Wait(); o.Stdout != "first\nend" {
		t.Errorf("%q", o.Stdout)
	}
}

// Completion calls no property, and limits the time of the methods that it calls.
func TestDriverComplete(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import os\nclass C:\n    field = os\n    @property\n    def p(self): os._exit(1)\n" +
		"    def __dir__(self):\n        while True: pass\nc = C(); über = {}")
	for _, c := range []struct {
		code  string
		start int
		want  string
	}{
		{"x = os.path.isf", 12, "isfile"}, {"prin", 0, "print"}, {"whil", 0, "while"}, {"über.upd", 6, "update"},
		{"c.p.x", 5, ""},
		{"c.field.getppi", 8, "getppid"}, {"c.f", 3, ""}, {"nowhere.x", 9, ""}, {"C.fie", 2, "field"},
	} {
		start, names := d.Complete(c.code+" ignored", len(c.code))
		if got := strings.Join(names, " "); got != c.want || len(names) > 0 && start != c.start {
			t.Errorf("%q: %d %q, want %d %q", c.code, start, got, c.start, c.want)
		}
	}
	if _, names := d.Complete("", 0); len(names) < 50 {
		t.Errorf("without a prefix: %q", names)
	}
}

// What the code waits in when it is interrupted; it has printed its line by then. State stays, and the next run is in
// order.
func TestDriverInterrupt(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import asyncio, time, signal, threading\nstate = 41")
	for name, wait := range map[string]string{
		"sleep":   "time.sleep(600)",
		"loop":    "while True: pass",
		"command": "!sleep 600",
		"await":   "await asyncio.sleep(600)",
		"lock":    "l = threading.Lock(); l.acquire(); l.acquire()",
		"handler": "signal.signal(signal.SIGALRM, lambda *a: None); time.sleep(600)",
		"finally": "try: await asyncio.sleep(600)\nfinally: state += 0",
	} {
		t.Run(name, func(t *testing.T) {
			d.Interrupt() // between two runs: nothing
			d.Start("print('waiting')\n" + wait)
			d.Printed(1)
			o := d.WaitInterrupted()
			if o.Error == nil || o.Error.Name != "KeyboardInterrupt" || o.Exit != 1 ||
				!strings.Contains(o.Stderr, "KeyboardInterrupt") {
				t.Errorf("%+v", o)
			}
			if o := d.Run("print(state + 1)"); o.Stdout != "42\n" || o.Error != nil {
				t.Errorf("after it: %+v", o)
			}
		})
	}
	d.Run("signal.signal(signal.SIGINT, signal.SIG_IGN)")
	if o := d.Run("signal.raise_signal(signal.SIGINT)"); o.Error == nil {
		t.Error("a handler of an earlier run still stands")
	}
}

// Interrupts that come at any moment around the end of a run cost neither the driver nor a report.
func TestDriverInterruptRace(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	for i := range 300 {
		d.Start("for i in range(200): display(i) if i % 50 == 0 else None")
		for range i % 4 {
			d.Interrupt()
		}
		if o := d.Wait(); o.Error != nil && o.Error.Name != "KeyboardInterrupt" {
			t.Fatalf("%+v", o)
		}
	}
	if o := d.Run("print(42)"); o.Stdout != "42\n" || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
}
