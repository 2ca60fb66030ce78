# Runs code.
from _contextvars import ContextVar

ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80  # Include/cpython/compile.h, code.h
Expression = type(compile("0", FILE, "eval", ONLY_AST))
FUTURES = 0x1FE0000  # flags of "from __future__ import", which later runs keep
MIN_RECURSION = 300  # for the driver itself
MAX_SOURCES, MAX_SOURCE_BYTES = 1000, 8 << 20  # of earlier runs, for the source lines in tracebacks
MAX_RESULTS = 100  # of one run
WATCHED = {  # modules that the driver extends: the function, and its part
    "linecache": "keep_lines watch", "warnings": "extend_warnings watch", "inspect": "extend_inspect source",
    "multiprocessing.spawn": "extend_spawn source", "IPython.core.display_functions": "extend_ipython watch",
    "IPython.core.getipython": "extend_getipython watch", "matplotlib.pyplot": "extend_pyplot figures",
    "matplotlib.font_manager": "extend_fonts fonts", "matplotlib._text_helpers": "extend_text fonts",
    "webbrowser": "extend_browser charts", "plotly.io._renderers": "extend_plotly charts",
    "plotly.offline.offline": "extend_plotly_offline charts", "bokeh.io.showing": "extend_bokeh charts",
    "bokeh.io.output": "extend_bokeh_output charts", "PIL.ImageShow": "extend_pillow charts",
    "PIL.Image": "extend_image charts",
    "concurrent.futures.thread": "extend_pool aside",
}
EARLY = {"inspect", "warnings"}  # of them, those that an interpreter may load before the driver
NO_INPUT = "this context has no input: pass values as variables or files"

SOURCES = {}  # of runs, by file name, oldest first
OWNER = ContextVar("run")  # of a thread or a task: the number of the run that started it
START_THREAD, START_JOINABLE = thread.start_new_thread, getattr(thread, "start_joinable_thread", None)
pending = []  # values that other threads displayed
captured = []  # lists of what is displayed under %%capture
runs = source_bytes = 0
cell = None  # the file name of the current run
shown = skipped = 0  # results of this run
flags = TOP_LEVEL_AWAIT


class Output(io.TextIOWrapper):
    """stdout or stderr of a context."""


Output.__name__, Output.__qualname__, Output.__module__ = "TextIOWrapper", "TextIOWrapper", "_io"


class NoInput(io._RawIOBase):
    name, mode = "<stdin>", "r"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, b):
        raise EOFError(NO_INPUT)


def interruptible(function, *args):
    """Calls the function while SIGINT raises KeyboardInterrupt. Returns what it raised, or None."""
    global sending
    failure = None
    try:
        signal.signal(INTERRUPT, signal.default_int_handler)
        function(*args)
    except BaseException as e:
        failure = e
    sending = False  # not any more: see serve
    while True:
        try:
            signal.signal(INTERRUPT, idle)
            signal.setitimer(signal.ITIMER_REAL, 0)  # a timer of the code ends with the run
            sys.settrace(None)
            sys.setprofile(None)
            if sys.getrecursionlimit() < MIN_RECURSION:
                sys.setrecursionlimit(MIN_RECURSION)
            return failure
        except BaseException as e:  # an interrupt just after the code
            if failure is None:
                failure = e


def parse(source, name):
    """Returns the syntax tree. Code that is not valid Python may have notebook syntax."""
    try:
        return compile(source, name, "exec", ONLY_AST | flags, True)
    except SyntaxError as e:
        if "!" not in source and "%" not in source and "?" not in source and "install" not in source:
            raise
        failure = e  # raised below: inside of this handler, another error would have it as its context
    need("notebook")
    return parse_notebook(source, name, failure)


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


def compiled(source, name):
    """Compiles the code for evaluate. The value of its last expression is muted by a ";" behind it."""
    global flags
    tree = parse(source, name)
    body, last = tree.body, None
    if body and type(body[-1]).__name__ == "Expr" and not muted(source, body[-1]):
        last = Expression(body.pop().value)
    codes = []
    if body or last is None:
        codes.append(compile(tree, name, "exec", flags, True))
        flags |= codes[0].co_flags & FUTURES
    if last is not None:
        codes.append(compile(last, name, "eval", flags, True))  # before the code runs, to find syntax errors
    return codes


def execute(source, name):
    """Executes the code and displays the value of its last expression."""
    source = source.decode().replace("\r\n", "\n").replace("\r", "\n")
    remember(source, name)
    value = evaluate(compiled(source, name))
    if value is not None:
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
    """Finds the modules that the driver extends. It is first in sys.meta_path."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in WATCHED or name[:7] == "IPython":
            need("watch")
            return watched(name, path, target)


def display(*values, **options):
    """Displays values in their richest forms. With raw=True, they are the forms themselves, by media type."""
    if options:
        need("watch")
        return ipython().display(*values, **options)
    for value in values:
        show(value, False)


def get_ipython():
    """Returns what notebooks call the shell: its magics, and the names of the code."""
    need("watch")
    return ipython().get_ipython()


def show(value, main):
    if captured:
        captured[-1].append(value)
    elif is_late():
        need("aside")
        show_aside(value)
    elif thread.get_ident() != MAIN:  # only the main thread reports
        if len(pending) < MAX_RESULTS:
            pending.append(value)
    elif run_id is not None:
        need("values")
        show_value(value, main)


def is_late():
    """Reports whether code of an earlier run is running: in a thread or a task, or between two runs."""
    return aside >= 0 and (run_id is None or OWNER.get(runs) != runs)


def watch_output():
    """Lets stdout and stderr look at who writes, while code of earlier runs may run."""
    if thread._count() or "tasks" not in PARTS:
        need("aside")
        Output.write = write_apart
    elif "write" in vars(Output):
        del Output.write


def start_thread(*args, **kwargs):
    """Replaces _thread.start_new_thread: the thread writes for the run that starts it."""
    need("aside")
    return start_owned_thread(*args, **kwargs)


def start_joinable_thread(*args, **kwargs):
    need("aside")
    return start_owned_joinable(*args, **kwargs)


def show_pending():
    while pending:
        show(pending.pop(0), False)


def settle():
    """Displays pending values and figures, and flushes the streams."""
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
    """Reopens standard streams that the code closed."""
    for name, number in ("stdin", 0), ("stdout", 1), ("stderr", 2):
        try:
            closed = getattr(sys, name).closed
        except BaseException:
            closed = False
        if closed:
            need("streams")
            reopen(name, number)


def exchange(variables):
    """Sets variables of the environment, or removes those that are None, and returns their values of before."""
    before = []
    for name, value in variables:
        try:
            environ = sys.modules["os"].environ
            before.append((name, environ.get(name)))
            if value is None:
                del environ[name]
            else:
                environ[name] = value
        except Exception:  # the code changed the environment, or broke it
            pass
    return before


def run(id, source, *env):
    global runs, shown, cell, spawned
    runs, shown, spawned = runs + 1, 0, False
    cell = "<cell %d>" % runs
    OWNER.set(runs)
    for names in GLOBALS, NAMESPACE:
        names.pop("__warningregistry__", None)  # a warning of an earlier run is shown again
    reopen_closed()
    words = [word.decode("utf-8", "surrogateescape") for word in env]
    before = exchange(zip(words[::2], words[1::2]))
    failure = interruptible(execute, source, cell)
    late = interruptible(settle)
    if "calls" not in PARTS:
        interruptible(end_calls)
    status = 0
    if failure is None:
        failure = late
    if failure is not None:
        need("failures")
        status = report(failure)
        interruptible(settle)
    exchange(before)
    flush(STDOUT)
    flush(STDERR)
    if posix.getpid() != PID:
        posix._exit(status)  # a fork of the context, which must not handle requests
    if spawned:
        need("aside")
        interruptible(leave_pipes)
    watch_output()
    send(b"done", id, b"%d" % status)


def look_like_main():
    """Gives the code of a context the environment of a separate interpreter."""
    global STDOUT, STDERR
    STDOUT, STDERR = own_stream("stdout"), own_stream("stderr")
    thread.start_new_thread = thread.start_new = start_thread
    if START_JOINABLE:
        thread.start_joinable_thread = start_joinable_thread
    if "threading" in sys.modules:
        need("aside")
        replace_starts(sys.modules["threading"])
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(NoInput()), "utf-8")
    extend()


def own_stream(name):
    stream = getattr(sys, name)
    if stream is not None:
        encoding, errors = stream.encoding, stream.errors
        stream = Output(stream.detach(), encoding, errors, line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    return stream


def extend():
    """Gives the code what it finds in notebooks."""
    sys.meta_path.insert(0, Watch)
    builtins.display = display
    builtins.get_ipython = get_ipython
    for name in EARLY & sys.modules.keys():
        function, part = WATCHED[name].split()
        need(part)
        GLOBALS[function](sys.modules[name])
