package native

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// deeds are programs with the same result in a fork and in a new interpreter: status, exit code, signal, and all
// output.
var deeds = []struct {
	name, code string
	files      map[string]string
}{
	// Ends.
	{name: "nothing", code: "#"},
	{name: "exit code", code: "raise SystemExit(3)"},
	{name: "exit without a code", code: "raise SystemExit"},
	{name: "exit with None", code: "import sys; sys.exit(None)"},
	{name: "exit with a truth", code: "import sys; sys.exit(True)"},
	{name: "exit with a text", code: "import sys; sys.exit('that is why')"},
	{name: "exit with an object", code: "import sys; sys.exit([1, 2])"},
	{name: "exit below zero", code: "import sys; sys.exit(-1)"},
	{name: "exit of 256", code: "import sys; sys.exit(256)"},
	{name: "exit beyond a word", code: "import sys; sys.exit(1 << 40)"},
	{name: "exit()", code: "exit(4)"},
	{name: "exit in a thread", code: "import sys, threading; t = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join(); print('on')"},
	{name: "_exit", code: "import os; print('out'); os._exit(7)"},
	{name: "_exit in a thread", code: "import os, threading; threading.Thread(target=os._exit, args=(8,)).start(); threading.Event().wait()"},
	{name: "abort", code: "import os; os.abort()"},
	{name: "keyboard interrupt", code: "raise KeyboardInterrupt"},
	{name: "SIGINT", code: "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()"},
	{name: "SIGTERM", code: "import os; os.kill(os.getpid(), 15); input()"},
	{name: "SIGKILL", code: "import os; os.kill(os.getpid(), 9); input()"},
	{name: "SIGSEGV", code: "import os; os.kill(os.getpid(), 11); input()"},
	{name: "SIGPIPE is ignored", code: "import os; os.kill(os.getpid(), 13); print('on')"},
	{name: "SIGHUP", code: "import os; os.kill(os.getpid(), 1); input()"},
	{name: "a wild pointer", code: "import ctypes; ctypes.string_at(1)"},
	{name: "a wild pointer, told of",
		code: "import ctypes, faulthandler; faulthandler.enable()\ndef deep():\n    ctypes.string_at(1)\ndeep()"},
	{name: "a session of its own is not to be made twice", code: "import os; os.setsid()"},
	{name: "every process of the session", code: "import os; os.killpg(0, 15); input()"},

	// Errors.
	{name: "uncaught error", code: "def f(n):\n    return g(n)\n\ndef g(n):\n    return 1 / n\n\nf(0)"},
	{name: "errors in a chain", code: "try:\n    {}['x']\nexcept KeyError as e:\n    raise ValueError('no') from e"},
	{name: "a group of errors", code: "raise ExceptionGroup('all', [ValueError(1), TypeError(2)])"},
	{name: "no syntax", code: "def f(:\n  pass"},
	{name: "endless recursion", code: "def f():\n    f()\nf()"},
	{name: "error in a thread", code: "import threading; t = threading.Thread(target=lambda: 1 / 0, name='t'); t.start(); t.join()"},
	{name: "error at the end", code: "import atexit; atexit.register(lambda: 1 / 0); print('on')"},
	{name: "error nobody can catch", code: "class A:\n    def __del__(self):\n        1 / 0\nA()"},
	{name: "hook", code: "import sys; sys.excepthook = lambda *a: print('hook', a[0]); 1 / 0"},
	{name: "warning", code: "import warnings; warnings.warn('old', DeprecationWarning); warnings.warn('user'); '\\d' is 1"},
	{name: "asked for in vain", code: "print(input('name? '))"},
	{name: "tracemalloc", code: "import tracemalloc; tracemalloc.start(); x = [0] * 1000; print(tracemalloc.take_snapshot().statistics('lineno')[0].traceback)"},

	// The end of the interpreter.
	{name: "order of the end", code: `
import atexit, os, sys, threading, weakref
class Last:
    def __init__(self, name): self.name = name
    def __del__(self): print("deleted", self.name, os is not None, os.path is not None, flush=True)
a, b = Last("a"), Last("b")
a.other, b.other = b, a
single = Last("single")
weakref.finalize(single, print, "finalized")
atexit.register(print, "first registered")
def late():
    import csv, json
    print("late", json.dumps([1]), csv.__name__, sorted(m for m in sys.modules if m in ("os", "io", "abc", "site")))
atexit.register(late)
t = threading.Thread(target=lambda: (threading.main_thread().join(600), print("thread"))); t.start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("main")`},
	{name: "files that nobody closes", code: `
import atexit, os
f = open("/tmp/f", "w"); f.write("unsaid")
pid = os.fork()
if pid: print(os.waitpid(pid, 0)[1]); f.close(); print(open("/tmp/f").read())`},
	{name: "files that nobody closes, and a function",
		code: "f = open('kept', 'w')\ndef say():\n    f.write('said')\nsay()"},
	{name: "things hung on others", code: `
import builtins, sys
class A:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone", self.name)
sys.a, builtins.b, A.itself, __annotations__["a"] = A("sys"), A("builtins"), A("class"), A("annotations")
sys.modules["odd"] = A("modules")`},
	{name: "import while all ends",
		code: "class A:\n    def __del__(self):\n        import colorsys\n        print(colorsys)\na = A()"},
	{name: "modules hold things to the end", code: "import held", files: map[string]string{
		"held.py": "import os\nclass A:\n    def __del__(self):\n        print('gone', os)\na = A()\n"}},
	{name: "all callbacks forgotten",
		code: "import atexit; atexit.register(print, 'no'); atexit._clear(); print('on')"},
	{name: "all modules forgotten", code: "import sys; sys.modules.clear(); print('on')"},
	{name: "callbacks in a child", code: "import atexit, os; atexit.register(print, 'end', flush=True)\nif os.fork(): os.wait()"},
	{name: "streams closed", code: "import os, sys; print('on', flush=True); sys.stderr.close(); sys.stdout.close(); os.close(0)"},
	{name: "standard output lost", code: "import os; os.close(1); print('x')"},

	// Modules.
	{name: "modules of the workspace come first", code: `
import ctypes, struct, socket, _struct, sitecustomize
for m in ctypes, struct, socket, sitecustomize: print(m.__name__, m.__file__)`, files: map[string]string{
		"ctypes.py": "", "struct.py": "", "socket.py": "", "sitecustomize.py": "print('of the workspace')\n",
		"usercustomize.py": "print('never')\n"}},
	{name: "modules of the user", code: "import site, sys; print(site.USER_SITE, site.USER_SITE in sys.path, sys.path)",
		files: map[string]string{
			"x.pth": ""}},
	{name: "imports in detail", code: `
import importlib, sys
for name in "ctypes struct _struct socket _socket atexit gc time select array math datetime decimal json re hashlib zlib sqlite3 lzma".split():
    print(name, name in sys.modules)
    m = importlib.import_module(name)
    print(m.__spec__.name, m.__spec__.origin, type(m.__loader__).__name__ if not isinstance(m.__loader__, type) else m.__loader__.__name__, importlib.reload(m) is m)`},
	{name: "ctypes", code: `
import ctypes, ctypes.util
libc = ctypes.CDLL(None, use_errno=True)
print(libc.abs(-5), ctypes.sizeof(ctypes.c_long), ctypes.util.find_library("m"), libc.open(b"/none", 0), ctypes.get_errno())
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
numbers = (ctypes.c_int * 5)(5, 1, 4, 2, 3)
libc.qsort(numbers, 5, 4, compare)
class P(ctypes.Structure): _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
print(list(numbers), P(1, 2).y, ctypes.pythonapi.Py_IsInitialized(), ctypes.cast(ctypes.c_char_p(b"hello"), ctypes.POINTER(ctypes.c_char))[1])
print(ctypes._pointer_type_cache.__class__, sorted(map(str, ctypes._pointer_type_cache)))`},
	{name: "memory may not be made executable otherwise than always", code: `
import mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC); print(len(m))`},

	// Processes and threads.
	{name: "subprocess", code: `
import subprocess, sys
code = "import os, sys; print(sorted(os.environ), sys.argv, sys.flags, sys.path, os.getcwd(), sys.stdin.read(), os.getppid() > 1, sorted(os.listdir('/proc/self/fd'))[:3])"
print(subprocess.run([sys.executable, "-c", code, "x"], input="in", capture_output=True, text=True))
print(subprocess.run("echo $0; echo err >&2; exit 3", shell=True, capture_output=True))
print(subprocess.run(["sh", "-c", "trap"], capture_output=True), subprocess.getoutput("ulimit -a"))
try: subprocess.run(["sleep", "60"], timeout=0.05)
except subprocess.TimeoutExpired: print('late')`},
	{name: "os.fork and exec", code: `
import os, sys
if os.fork() == 0: os.execvp("env", ["env", "-i", "echo", "executed"])
print(os.waitstatus_to_exitcode(os.wait()[1]))
try: os.wait()
except ChildProcessError as e: print(e)
if (pid := os.posix_spawnp("sh", ["sh", "-c", "exit 4"], os.environ)): print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
os.execvp("sh", ["sh", "-c", "echo ${X-none}; exit 6"])`},
	{name: "multiprocessing by fork", code: pool("fork")},
	{name: "multiprocessing by spawn", code: pool("spawn")},
	{name: "multiprocessing by forkserver", code: pool("forkserver")},
	{name: "shared memory", code: `
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7
o = shared_memory.SharedMemory(s.name); print(o.buf[0]); o.close(); s.close(); s.unlink()
from multiprocessing import resource_tracker as r; r._resource_tracker._stop() # else it may still run at the end`},
	{name: "executors", code: `
import concurrent.futures as c
if __name__ == "__main__":
    for kind in c.ThreadPoolExecutor, c.ProcessPoolExecutor:
        with kind(3) as e: print(list(e.map(abs, range(-50, 0))))`},
	{name: "threads", code: `
import queue, threading, time
q, lock, total = queue.Queue(), threading.Lock(), [0]
def work():
    while (n := q.get()) is not None:
        with lock: total[0] += n
ts = [threading.Thread(target=work) for _ in range(20)]
[t.start() for t in ts]; [q.put(n) for n in range(1000)]; [q.put(None) for _ in ts]; [t.join(10) for t in ts]
print(total, threading.active_count(), threading.stack_size())
local = threading.local(); local.x = 1
t = threading.Timer(0.001, print, ["timer"]); t.start(); t.join()
b = threading.Barrier(2); threading.Thread(target=b.wait).start(); b.wait(10); print("both")`},
	{name: "asyncio", code: `
import asyncio, sys
async def main():
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(input()[::-1])", stdin=-1, stdout=-1)
    print(await p.communicate(b"abc\n"), p.returncode)
    print(await asyncio.gather(*(asyncio.sleep(0.001 * n, n) for n in range(5)), asyncio.to_thread(abs, -1)))
    async def serve(r, w): w.write((await r.readline()).upper()); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"hello\n"); print(await r.read()); s.close()
    try: await asyncio.wait_for(asyncio.sleep(60), 0.01)
    except asyncio.TimeoutError: print("late")
asyncio.run(main())`},
	{name: "signals", code: `
import os, signal, time
got = []
def await_(n, what):
    while len(got) < n: time.sleep(0.001)
    print(what, got[-1])
for s in signal.SIGUSR1, signal.SIGALRM: signal.signal(s, lambda n, frame: got.append(n))
signal.signal(signal.SIGCHLD, lambda n, frame: got.append(os.wait()[1]))
os.kill(os.getpid(), signal.SIGUSR1); await_(1, "own")
if os.fork() == 0: os._exit(1)
await_(2, "child"); signal.setitimer(signal.ITIMER_REAL, 0.01); await_(3, "alarm")
r, w = os.pipe(); os.set_blocking(w, False); signal.set_wakeup_fd(w); os.kill(os.getpid(), signal.SIGUSR1); print(os.read(r, 9))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2)
print(signal.sigpending(), signal.sigwaitinfo([signal.SIGUSR2]).si_signo, signal.sigtimedwait([signal.SIGUSR2], 0.01))`},

	// Output.
	{name: "output of all kinds", code: `
import os, subprocess, sys
print("one"); sys.stderr.write("two\n"); os.write(1, b"\xff\x00three\n"); sys.stdout.buffer.write(b"four\n"); print("äöü €", ascii("\udcff"))
try: print("\udcff")
except UnicodeEncodeError as e: print(e)
subprocess.run(["echo", "five"]); os.system("echo six >&2"); sys.__stdout__.write("seven"); print("x" * 300000, end="")`},
	{name: "output of a child that outlives", code: `
import os, time
r, w = os.pipe()
print("early", flush=True)
if os.fork() == 0: print("late", flush=True); os.write(w, b"x"); time.sleep(600)
os.read(r, 1)`},
	{name: "odd arguments", code: "import os, sys; print(sys.argv, sys.orig_argv, [os.fsencode(a) for a in sys.argv])"},
	{name: "odd environment", code: "import os, ctypes; print({k: v for k, v in sorted(os.environb.items()) if k != b'FUMEHOOD_EXECUTION'}, os.getenv('ODD'), os.system('echo $ODD'))"},
	{name: "execution", code: "import os; print(len(os.environ['FUMEHOOD_EXECUTION']))"},

	// Garbage collector and memory.
	{name: "garbage", code: `
import gc, weakref
class C: pass
alive = []
for n in range(20000):
    a = C(); a.me = a
    if n % 1000 == 0: alive.append(weakref.ref(a))
print(sum(r() is not None for r in alive) < 5, gc.collect() >= 0, sum(r() is not None for r in alive[:-1]), gc.isenabled())
gc.unfreeze(); print(gc.collect() >= 0); gc.disable(); gc.enable(); print(len(gc.get_objects()) > 1000)`},
	{name: "pty", code: "import os, pty\ntry: print(len(pty.openpty()))\nexcept OSError as e: print(e)"},
	{name: "the manner of the controlling terminal", code: "open('/dev/tty')"},
}

func pool(method string) string {
	return `
import multiprocessing as m, os, sys
def square(n): return n * n, __name__, sys.argv, m.parent_process().name
def put(q, e): q.put((os.getppid() > 1, m.current_process().name)); e.wait()
if __name__ == "__main__":
    m.set_start_method("` + method + `")
    with m.Pool(2) as p: print(p.map(square, range(5)))
    q, e = m.Queue(), m.Event()
    p = m.Process(target=put, args=(q, e)); p.start(); print(q.get()); e.set(); p.join(); print(p.exitcode)
    with m.Manager() as manager: d = manager.dict(a=1); print(dict(d))
    if m.get_start_method() != "fork": # these may still run at the end
        from multiprocessing import forkserver as f, resource_tracker as r
        del q, e, p; f._forkserver._stop(); r._resource_tracker._stop()
`
}

// address matches what differs in every run.
var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// TestForkDoesWhatAStartDoes runs programs both ways.
func TestForkDoesWhatAStartDoes(t *testing.T) { sameDeeds(t, cold(t), warmed(t), (*house).alone) }

// TestParkedDoesWhatAStartDoes runs the same programs in an interpreter that waited in its sandbox.
func TestParkedDoesWhatAStartDoes(t *testing.T) {
	backendtest.ForCheck(t, "the quick tests compare what a program sees")
	start, parked := cold(t), rested(t)
	start.spec = parked.spec
	sameDeeds(t, start, parked, (*house).waited)
}

func sameDeeds(t *testing.T, start, fork *house, run func(*house, sandbox.Request) *sandbox.Result) {
	for _, d := range deeds {
		t.Run(d.name, func(t *testing.T) {
			start.TB, fork.TB = t, t
			r := python3(d.code)
			r.Return.Globs = []string{"kept"}
			r.Args = []string{"", " ", "a=b", "'\"$(x)\n", "\xff\xfe", "äöü", "-u", "--", strings.Repeat("long", 20000)}
			r.Env = []string{"ODD=\xff=\n= x ", "EMPTY=", "_=y", "UTF=äöü€", "LONG=" + strings.Repeat("l", 100000),
				"X=1",
				"GLIBC=1"}
			for name, text := range d.files {
				r.Files = append(r.Files, sandbox.File{Path: name, Data: []byte(text)})
			}
			want, got := told(start.alone(r)), told(run(fork, r))
			if want != got {
				t.Errorf("started:\n%.3000s\nforked:\n%.3000s", want, got)
			}
			t.Logf("%.300s", want)
		})
	}
}

func told(r *sandbox.Result) string {
	text := string(r.Status) + " " + strconv.Itoa(r.ExitCode) + " " + strconv.Itoa(r.Signal) + "\nstdout " +
		string(r.Stdout.Head) + string(r.Stdout.Tail) +
		"\nstderr " + string(r.Stderr.Head) + string(r.Stderr.Tail) + "\nhints " + fmt.Sprint(r.Hints)
	for _, f := range r.Files {
		text += "\n" + f.Path + " " + string(f.Data)
	}
	if r.Exception != nil {
		text += "\nexception " + r.Exception.Name + ": " + r.Exception.Value
	}
	return address.ReplaceAllString(text, "0x")
}
