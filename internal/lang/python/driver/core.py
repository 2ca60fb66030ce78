# The driver of a context: package driver documents what it speaks. This part is compiled at each start, which must be quick, so it
# imports nothing that the interpreter has not loaded already. The other parts (PARTS) are compiled when they are first needed.
#
# All parts share these globals. Their __builtins__ is a copy, so code that redefines print or len harms only itself.
import _io as io
import _signal as signal
import _thread as thread
import builtins
import posix
import sys

FILE = "<glovebox>"  # the file name of the driver's own code; frames of it are shown to nobody
INTERRUPT = signal.SIGINT
CHANNEL = 250  # the channel moves to this descriptor and the next, so that files of the code get the usual numbers
PIECE = 1 << 16  # bytes of one read; Linux's pipes hold as many
ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80  # Include/cpython/compile.h, code.h
FUTURES = 0x1FE0000  # what "from __future__ import" sets; later runs keep it
MAX_RESULTS = 100  # of one run
MIN_RECURSION = 300  # what the driver needs itself
MAX_SOURCES, MAX_SOURCE_BYTES = 1000, 8 << 20  # of earlier runs, for the source lines in tracebacks

GLOBALS, NAMESPACE = globals(), vars(sys.modules["__main__"])
PARTS = dict(zip(sys.argv[2::2], sys.argv[3::2]))
STDOUT, STDERR, EXCEPTHOOK = sys.stdout, sys.stderr, sys.excepthook
PID, MAIN = posix.getpid(), thread.get_ident()
SOURCES = {}  # of runs, by file name, oldest first
NO_INPUT = "this context has no input: pass values as variables or files"

inbox, outbox = [], []  # what was read and not yet handled; frames to be written
written = []  # bytes of the first frame, by each write
sending = over = failed = False  # failed: the run has reported an error
request = None  # the next, with its fields
run_id = None  # of the run that goes on
pending = []  # values that other threads displayed
runs = source_bytes = 0
shown = skipped = 0  # results of this run
flags = TOP_LEVEL_AWAIT


class NoInput(io._RawIOBase):
    name, mode = "<stdin>", "r"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, b):
        raise EOFError(NO_INPUT)


def need(part):
    """Compiles a part when it is first needed. An interrupt makes it start again the next time."""
    if part in PARTS:
        exec(compile(PARTS[part], FILE, "exec"), GLOBALS)
        del PARTS[part]


def send(kind, *fields):
    """Writes one report."""
    global run_id, failed
    if posix.getpid() != PID:
        return  # a fork of the context
    frame = b" ".join([kind, *[b"%d" % len(field) for field in fields]]) + b"\n" + b"".join(fields)
    if kind == b"done":
        run_id, failed = None, False
    elif kind == b"error":
        failed = True
    outbox.append(frame)
    drain()


def drain():
    """Writes the reports that wait.

    A signal handler of the code may run after each call here, and raise or display. Half a frame would break the protocol. So the length of
    each write is in a list before a handler can run (extend and map are C), and whoever comes next goes on from there.
    """
    global sending
    if sending:
        return
    sending = True
    try:
        while outbox:
            rest = memoryview(outbox[0])[sum(written):]
            if rest:
                written.extend(map(posix.write, (outgoing,), (rest,)))
            else:
                del written[:], outbox[0]
    except OSError as e:
        if e.errno in (9, 32):  # EBADF, EPIPE: the engine has gone, or the code closed the channel
            posix._exit(1)
        raise
    finally:
        sending = False


def receive():
    """Reads the next request; at the end there is none. What it has read is kept if a handler raises: see drain."""
    global request, over
    while request is None:
        data = b"".join(inbox)
        end = size = data.find(b"\n") + 1
        if end:
            kind, *lengths = data[:end].split()
            fields = []
            for length in map(int, lengths):
                fields.append(data[size:size + length])
                size += length
            if len(data) >= size:
                inbox[:], request = [data[size:]], (kind, fields)
                return
        while True:
            inbox.extend(map(posix.read, (incoming,), (PIECE,)))
            if not inbox[-1]:
                over = True
                return
            if sum(map(len, inbox)) >= size:
                break


def idle(number, frame):
    """Handles SIGINT outside the code: not at all."""


def interruptible(function, *args):
    """Calls the function while SIGINT raises KeyboardInterrupt. Returns what it raised, or None."""
    global sending
    failure = None
    try:
        signal.signal(INTERRUPT, signal.default_int_handler)
        function(*args)
    except BaseException as e:
        failure = e
    sending = False  # nobody is: see serve
    while True:
        try:
            signal.signal(INTERRUPT, idle)
            signal.setitimer(signal.ITIMER_REAL, 0)  # a timer of the code ends with the run
            sys.settrace(None)
            sys.setprofile(None)
            if sys.getrecursionlimit() < MIN_RECURSION:
                sys.setrecursionlimit(MIN_RECURSION)
            return failure
        except BaseException as e:  # an interrupt that came just after the code
            if failure is None:
                failure = e


def parse(source, name):
    """Returns the syntax tree. Lines with "!" or "%pip" are for the shell, but only if the code is no Python as it is."""
    try:
        return compile(source, name, "exec", ONLY_AST | flags, True)
    except SyntaxError as e:
        if "!" not in source and "%pip" not in source:
            raise
        need("shell")
        tree = parse_shell(source, name, e)
        if tree is None:
            raise
        return tree


def muted(source, node):
    """Reports whether a ";" follows the last statement."""
    if ";" not in source:
        return False
    lines = source.split("\n")
    rest = lines[node.end_lineno - 1].encode()[node.end_col_offset:].decode()
    return "\n".join([rest] + lines[node.end_lineno:]).lstrip(" \t\f\\\n").startswith(";")


def evaluate(codes):
    """Evaluates code objects one after another, and returns the value of the last."""
    for code in codes:
        if code.co_flags & COROUTINE:
            need("tasks")
            return wait(evaluate_async(codes))
    for code in codes:
        value = eval(code, NAMESPACE)
    return value


def execute(source, name):
    """Executes the code and shows the value of its last expression, unless a ";" follows it."""
    global flags
    source = source.decode().replace("\r\n", "\n").replace("\r", "\n")
    remember(source, name)
    tree = parse(source, name)
    body, last = tree.body, None
    if body and type(body[-1]).__name__ == "Expr" and not muted(source, body[-1]):
        last = compile("0", name, "eval", ONLY_AST)
        last.body = body.pop().value
    codes = [compile(tree, name, "exec", flags, True)]
    flags |= codes[0].co_flags & FUTURES
    if last is not None:
        codes.append(compile(last, name, "eval", flags, True))  # before anything runs: it may have a syntax error
    value = evaluate(codes)
    if last is not None and value is not None:
        builtins._ = value
        show(value, True)


def remember(source, name):
    """Keeps the source for tracebacks."""
    global source_bytes
    SOURCES[name] = source
    source_bytes += len(source)
    while len(SOURCES) > MAX_SOURCES or source_bytes > MAX_SOURCE_BYTES and len(SOURCES) > 1:
        oldest = next(iter(SOURCES))
        source_bytes -= len(SOURCES.pop(oldest))
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache.pop(oldest, None)
    if "linecache" in sys.modules:
        need("watch")
        keep_lines(sys.modules["linecache"])


class Watch:
    """Finds modules that the driver adds something to. It is first in sys.meta_path."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "linecache" or name == "matplotlib.pyplot" or name == "IPython.core.display_functions":
            need("watch")
            return watched(name, path, target)


def display(*values):
    """Shows values in their richest forms."""
    for value in values:
        show(value, False)


def show(value, main):
    if thread.get_ident() != MAIN:  # only the main thread reports
        if len(pending) < MAX_RESULTS:
            pending.append(value)
    elif run_id is not None:
        need("values")
        show_value(value, main)


def show_pending():
    while pending:
        show(pending.pop(0), False)


def settle():
    """Ends what the code shows, and writes what it printed."""
    if pending:
        show_pending()
    if "matplotlib.pyplot" in sys.modules:
        need("figures")
        try:
            show_figures()
        except Exception:  # the code broke the package
            pass
        figures_shown.clear()
    if skipped:
        show_skipped()
    flush(sys.stdout)
    flush(sys.stderr)


def flush(stream):
    try:
        stream.flush()
    except Exception:
        pass


def reopen_closed():
    """Opens standard streams again that the code closed."""
    for name, number in ("stdin", 0), ("stdout", 1), ("stderr", 2):
        try:
            closed = getattr(sys, name).closed
        except BaseException:
            closed = False
        if closed:
            need("streams")
            reopen(name, number)


def run(id, source):
    global runs, shown
    runs, shown = runs + 1, 0
    reopen_closed()
    failure = interruptible(execute, source, "<run %d>" % runs)
    late = interruptible(settle)
    status = 0
    if failure is None:
        failure = late
    if failure is not None:
        need("failures")
        status = report(failure)
        interruptible(settle)
    flush(STDOUT)
    flush(STDERR)
    if posix.getpid() != PID:
        posix._exit(status)  # a fork of the context, which must not handle requests
    send(b"done", id, b"%d" % status)


def leave():
    """Closes the channel in a fork of the context."""
    for number in incoming, outgoing:
        try:
            posix.close(number)
        except OSError:
            pass


def step():
    """Handles one request."""
    global request, run_id, sending
    if posix.getpid() != PID:
        posix._exit(1)
    sending = False  # nobody is: see serve
    if run_id is not None:  # a handler of the code raised in the driver
        if not failed:
            send(b"error", run_id, b"RuntimeError", b"a signal handler raised when the code had ended", b"")
        send(b"done", run_id, b"1")
    drain()
    try:
        receive()
    except OSError as e:
        if e.errno == 9:  # EBADF: the code closed the channel
            posix._exit(1)
    if request is None:
        return
    (kind, fields), request = request, None
    if kind == b"run":
        run_id = fields[0]
        run(*fields)
    elif kind == b"complete":
        need("names")
        complete(*fields)


def handle_requests():
    while not over:
        try:
            step()
        except BaseException:
            pass


def serve():
    """Handles requests until they end.

    A handler may raise at a jump back, which is outside of try in Python 3.13, so there are two loops. And what drain sets may stay set, so
    whoever knows that no report is under way resets it.
    """
    while not over:
        try:
            handle_requests()
        except BaseException:
            pass


def start():
    """Makes everything look as in an interpreter of its own, and moves the channel."""
    global incoming, outgoing
    channel = []
    for number in 3, 4:
        to = CHANNEL + len(channel)
        try:
            posix.dup2(number, to, inheritable=False)
            posix.close(number)
        except OSError:  # the limit of descriptors is lower
            posix.set_inheritable(number, False)
            to = number
        channel.append(to)
    incoming, outgoing = channel
    posix.register_at_fork(after_in_child=leave)
    signal.signal(INTERRUPT, idle)
    sys.argv = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = sys.orig_argv[:1]
    STDOUT.reconfigure(line_buffering=True)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(NoInput()), "utf-8")
    sys.meta_path.insert(0, Watch)
    builtins.display = display


start()
send(b"ready", sys.version.split()[0].encode())
serve()
need("end")
