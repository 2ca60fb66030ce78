//go:build unix

package python_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// Code that breaks possible dependencies of the driver. Each case has its own driver, and the next run must work.
func TestDriverWithstands(t *testing.T) {
	for name, code := range map[string]string{
		"builtins": "import builtins\nfor n in 'print len repr open compile exec eval isinstance str type sum " +
			"map'.split():\n" +
			"    setattr(builtins, n, None)",
		"no builtins": "import builtins\nfor n in list(vars(builtins)):\n" +
			"    if n not in ('delattr', '__import__'): delattr(builtins, n)",
		"modules":    "import sys\nsys.modules.clear()",
		"main":       "import sys\ndel sys.modules['__main__']\nsys.meta_path.clear()",
		"recursion":  "import sys\nsys.setrecursionlimit(30)",
		"trace":      "import sys\ndef f(*a): 1/0\nsys.settrace(f)\nsys.setprofile(f)",
		"fork":       "import os\npid = os.fork()\nif pid == 0: display('from the fork')",
		"fork fails": "import os\npid = os.fork()\nif pid == 0: 1/0\nos.waitpid(pid, 0)",
		"processes": "import multiprocessing as m\nm.get_context('fork').Process(target=display, " +
			"args=(1,)).start()",
		"channel":   "import os\nos.closerange(3, 200)",
		"stdout":    "import sys\nsys.stdout.close()\nsys.stderr.close()",
		"no stdout": "import sys\nold = sys.stdout\nsys.stdout = None\ndisplay(1)\nsys.stdout = old",
		"exit":      "exit(3)",
		"thread": "import threading\ndef f():\n    while True: display(1)\nthreading.Thread(target=f, " +
			"daemon=True).start()",
		"collector": "import gc\ngc.set_threshold(1)\nclass C:\n    def __del__(self): display(1)\nC().c = 1; " +
			"del C",
		"hook": "import sys\nsys.excepthook = None\n1/0",
		"exception": "class E(Exception):\n    def __str__(self): raise self\n    def __bool__(self): raise " +
			"self\nraise E",
		"deep":   "def f(): f()\nf()",
		"memory": "bytearray(1 << 60)",
		"stream raises": "import sys\nclass S:\n    def write(self, s): 1/0\n    def flush(self): 1/0\nerr = " +
			"sys.stderr\nsys.stderr = S()\n1/0",
		"null":    "x = 1\x00",
		"no text": "\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			d := langtest.StartDriver(t, python.Language, nil)
			d.Run("state = 41")
			first := d.Run(code)
			second := d.Run("import posix\nposix.write(1, b'%d' % (state + 1))")
			if second.Stdout != "42" || second.Error != nil || second.Exit != 0 {
				t.Errorf("first %+v\nsecond %+v", first, second)
			}
			if strings.Contains(first.Stderr+second.Stderr, "fumehood") {
				t.Errorf("the driver shows: %s %s", first.Stderr, second.Stderr)
			}
		})
	}
}

// A handler of the code that raises at any moment, also in the driver, costs no report and no request. What it displays
// keeps other frames whole. The code's timer ends with the run.
func TestDriverSignals(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import signal\nstate = 41\ndisplay(0)\ndef f(*a):\n    display('f' * 3000)\n    raise TimeoutError")
	for i := range 500 {
		d.Run(fmt.Sprintf("signal.signal(signal.SIGALRM, f)\nsignal.setitimer(signal.ITIMER_REAL, %d * 1e-6, 3e-4)\n",
			50+i) +
			"for i in range(20): display('x' * 3000)")
	}
	if o := d.Run("print(state + 1, signal.getitimer(signal.ITIMER_REAL))"); o.Stdout != "42 (0.0, 0.0)\n" {
		t.Errorf("%q %v", o.Stdout, o.Error)
	}
}

// Code that ends the interpreter, or its channel, ends the driver at once and without a report.
func TestDriverEnds(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		exit int
	}{
		"exit":    {"import os\nos._exit(7)", 7},
		"channel": {"import os\nos.closerange(3, 1024)", 1},
		"exec":    {"import os\nos.execv('/bin/sh', ['sh', '-c', 'exit 9'])", 9},
		"abort":   {"import os\nos.abort()", -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := langtest.StartDriver(t, python.Language, nil)
			d.Start(test.code)
			if end := d.Ended(); end.ExitCode() != test.exit {
				t.Errorf("exit code %d, want %d", end.ExitCode(), test.exit)
			}
		})
	}
}

// The end of the requests ends the interpreter as usual, within a limit even if a thread continues.
func TestDriverHangsUp(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import atexit, threading\natexit.register(print, 'bye', flush=True)\nf = open('file', 'w'); f.write('kept')")
	d.Hangup()
	if end := d.Ended(); !end.Success() {
		t.Errorf("ended with %s", end)
	}
	d = langtest.StartDriver(t, python.Language, nil)
	d.Run("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()")
	d.Hangup()
	d.Ended()
}
