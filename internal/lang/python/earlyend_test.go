package python

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// likeZygote makes an interpreter end as a fork of the zygote does. WAY is early, full, or mark: then it aborts if it
// does not end early.
const likeZygote = `
import sys
before, paths = set(sys.modules), set(sys.path_importer_cache)
import ctypes
` + "%s" + `
def prepare():
    import atexit, gc, os
    way, keep = os.environ.pop("WAY"), ctypes.pythonapi.Py_IncRef
    arm = early_end() if way != "full" else int
    if way == "mark":
        ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).abort)
    def spare(modules, names):
        for name in names: modules.pop(name, None)
        arm()
    kept = [name for name in before if name not in ("__main__", "builtins", "sys")]
    for name in kept: keep(ctypes.py_object(sys.modules[name]))
    atexit.register(spare, sys.modules, kept)
    for name in set(sys.path_importer_cache) - paths: del sys.path_importer_cache[name]
    for name in set(sys.modules) - before:
        if name != __name__: keep(ctypes.py_object(sys.modules.pop(name)))
    gc.collect(); gc.freeze()
    for thing in sys.modules["__main__"], sys.modules["__main__"].__dict__:
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(thing))
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(thing))
    del os.environ["PYTHONPATH"]
prepare()
`

// A program is some beginnings and an end. These have the names that the beginnings use.
const preamble = `
import os, sys
class A:
    def __init__(self, name): self.name = name
    def __del__(self, write=os.write): write(1, b"gone %s\n" % self.name.encode())
    def __call__(self, *_): pass
`

var beginnings = []struct {
	code  string
	early bool // with an end like "pass"
}{
	{"x = 1", true},
	{"import dataclasses, decimal, enum, json, re, statistics, typing, unittest, urllib.request", true},
	{"f = open('f', 'w'); f.write('x' * 10)", true},
	{"def f(): pass\nf.f = open('f', 'w'); f.me = f; f.f.write('y')", true},
	{"import threading; l = threading.local(); l.f = open('f', 'w'); l.f.write('z')", true},
	{"import contextvars; v = contextvars.ContextVar('v'); v.set(open('f', 'w')); v.get().write('c')", false},
	{"a, b = A('a'), A('b'); a.b, b.a = b, a; c = A('c')", true},
	{"import threading; threading.local().a = A('local'); l = threading.local(); l.a = A('kept')", true},
	{"import contextvars; v = contextvars.ContextVar('v'); v.set(A('context'))", false},
	{"sys.path.append(A('path')); sys.meta_path.append(A('finder')); os.a = A('os')", false},
	{"import codecs; codecs.register(A('codec'))", false},
	{"os.register_at_fork(before=A('fork'))", false},
	{"class S:\n    __slots__ = ()\n    __del__ = A.__del__\n    name = 's'\n" +
		"import codecs; codecs.register([S()].count)", false},
	{"def g():\n    try: yield\n    finally: os.write(1, b'finally\\n')\ng = g(); next(g)", true},
	{"import contextvars\nasync def c(): pass\nv = contextvars.ContextVar('v'); v.set(c())", false},
	{"import weakref; a = A('weak'); weakref.finalize(a, print, 'finalized')", true},
	{"import contextvars, weakref\nv = contextvars.ContextVar('v')\ndef f(): pass\n" +
		"v.set((f, weakref.ref(f, lambda _, write=os.write: write(1, b'callback\\n'))))", false},
	{"import weakref; d = weakref.WeakValueDictionary(); a = A('value'); d[1] = a; s = weakref.WeakSet([A])", true},
	{"import atexit; atexit.register(print, 'atexit'); atexit.register(A('callback'))", true},
	{"import atexit; atexit.register(sys.stdout.close)", false},
	{"sys.addaudithook(lambda event, _, write=os.write: write(1, event.encode() + b'\\n'))", false},
	{"import threading, time; threading.Thread(target=lambda: (time.sleep(0.01), print('thread'))).start()", true},
	{"import threading; threading.Thread(target=threading.Event().wait, args=(9,), daemon=True).start()", false},
	{"import signal; signal.pthread_sigmask(0, [10]); os.kill(os.getpid(), 10)", true},
	{"if os.fork(): os.wait()\nprint('both')", true},
	{"import threading\ndef fork():\n    if os.fork(): os.wait()\n    print('both')\n" +
		"t = threading.Thread(target=fork); t.start(); t.join()", true},
	{"import multiprocessing as m; p = m.get_context('fork').Process(target=A('child')); p.start(); p.join(); " +
		"print(p.exitcode)", true},
	{"import subprocess; print(subprocess.run(['echo', 'x'], capture_output=True))", true},
	{"os.close(1); print('x')", true},
	{"os.dup2(os.open('/dev/full', 1), 1)\ntry: print('x')\nexcept OSError as e: sys.stderr.write(str(e))", true},
	{"import io; sys.stdout = io.StringIO(); print('lost')", false},
	{"sys.stdout = open('out', 'w'); print('kept')", false},
	{"sys.stdout = open('/dev/full', 'w'); print('full')", false},
	{"sys.stdout.reconfigure(write_through=False, line_buffering=False); print('x', end='')", false},
	{"class W(A):\n    def __del__(self, out=sys.stdout):\n" +
		"        out.reconfigure(write_through=False); out.write('late')\n" +
		"import contextvars; v = contextvars.ContextVar('v'); v.set(sys.stdout); w = W('w')", false},
	{"sys.stdout.flush = lambda: 1 / 0", false},
	{"import ctypes; ctypes.CDLL(None).printf(b'from C\\n')", false},
	{"import sqlite3; c = sqlite3.connect('db'); c.execute('create table t(x)'); c.execute('insert into t values(1)')",
		false},
	{"import tempfile; d = tempfile.TemporaryDirectory(dir='.'); t = tempfile.NamedTemporaryFile(dir='.')", true},
	{"import zipfile; z = zipfile.ZipFile('z', 'w'); z.writestr(zipfile.ZipInfo('a'), 'b')", true},
	{"import asyncio\nasync def f(): await asyncio.sleep(0)\nasyncio.run(f()); loop = asyncio.new_event_loop(); " +
		"t = loop.create_task(f())", true},
	{"import logging; logging.basicConfig(filename='log'); logging.warning('logged')", true},
	{"import gc; a = A('cycle'); a.a = a; del a; gc.disable(); gc.freeze()", true},
	{"import gc; gc.unfreeze(); a = A('a')", false},
	{"import builtins; builtins.type = builtins.id = builtins.len = builtins.iter = None", true},
	{"sys.modules.clear()", true},
	{"class M(type):\n    def __del__(self, write=os.write): write(1, b'class gone\\n')\n    __hash__ = None\n" +
		"class C(metaclass=M): pass\nimport codecs; codecs.register([C].count)", false},
	{"import faulthandler, tracemalloc; faulthandler.enable(); tracemalloc.start()", true},
	{"import _xxsubinterpreters as i; i.run_string(i.create(), 'print(1)')", false},
	{"sys.setprofile(lambda *_: None)", false},
}

var ends = []string{"pass", "raise SystemExit(3)", "sys.exit('that is why')", "1 / 0", "raise KeyboardInterrupt",
	"import atexit; atexit.register(lambda: 1 / 0)", "sys.excepthook = lambda *a: os.write(1, b'hook'); 1 / 0"}

// interpreter is a folder with Debian's Python, if it can end early.
func interpreter(t *testing.T) (dir string) {
	const python = "/usr/bin/python3"
	const ask = "import os, sys; print(*sys.version_info[:2], os.uname().machine)"
	version, err := exec.Command(python, "-c", ask).Output()
	if string(version) != "3 11 x86_64\n" {
		t.Skipf("SKIPPED, NOT TESTED: no interpreter that can end early: %s: %q %v", python, version, err)
	}
	dir = t.TempDir()
	err = os.WriteFile(filepath.Join(dir, "sitecustomize.py"), fmt.Appendf(nil, likeZygote, earlyEnd), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var varying = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// end runs a program in a new folder, and returns its output, its exit code and its files.
func end(t *testing.T, library, way, code string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/python3", "main.py")
	cmd.Dir = dir
	cmd.Env = []string{"WAY=" + way, "PYTHONPATH=" + library, "PATH=/usr/bin:/bin", "PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	left := fmt.Sprintf("%v\n%s\n%s", cmd.ProcessState, &stdout, &stderr)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		left += fmt.Sprintf("\n%s %q %v", f, text, err)
	}
	return varying.ReplaceAllString(strings.ReplaceAll(left, dir, "DIR"), "0x")
}

// TestEarlyEnd compares an early end with a full one.
func TestEarlyEnd(t *testing.T) {
	library := interpreter(t)
	for i, b := range beginnings {
		for j, e := range ends {
			if testing.Short() && (i+j)%len(beginnings) != 0 && i != j {
				continue
			}
			code := preamble + b.code + "\n" + e + "\n"
			early, full := end(t, library, "early", code), end(t, library, "full", code)
			if early != full {
				t.Errorf("%s\nearly: %s\nfull: %s", code, early, full)
			}
		}
	}
}

// TestWhoEndsEarly checks that the ordinary ones of the programs do, and those that may not do not.
func TestWhoEndsEarly(t *testing.T) {
	library := interpreter(t)
	for i, b := range beginnings {
		if testing.Short() && i%6 != 0 {
			continue
		}
		left := end(t, library, "mark", preamble+b.code)
		if early := !strings.HasPrefix(left, "signal: aborted"); early != b.early {
			t.Errorf("%s\nended early: %v\n%s", b.code, early, left)
		}
	}
}
