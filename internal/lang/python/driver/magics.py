# Carries out magics, shell commands and help of notebooks. Each function gets the rest of the line, and a cell magic
# the rest of the cell. The value that it returns is that of the line.
IGNORED = set("""matplotlib config load_ext reload_ext unload_ext autoreload aimport colors xmode gui precision
    automagic pprint autosave autoawait pdb logstart logstop logon logoff alias rehashx doctest_mode""".split())
COMMANDS = set("pip pip3 conda mamba uv ls ll la lf cat cp mv rm mkdir rmdir touch head tail man grep wc".split())
PROGRAMS = set("bash sh zsh ksh perl ruby python python3 python2 pypy node php Rscript lua awk sed".split())
SHOWN = {"html": "HTML", "svg": "SVG", "latex": "Latex", "markdown": "Markdown", "javascript": "Javascript",
         "js": "Javascript"}
TIME_UNITS = (1, "s"), (1e-3, "ms"), (1e-6, "\u00b5s"), (1e-9, "ns")


class UsageError(Exception):
    """A magic that does not exist here, or whose arguments are wrong."""


UsageError.__module__ = "builtins"  # its name in tracebacks


def call_magic(name, line, body, frame):
    """Carries out one line, or one cell if there is a body."""
    if name in ("!", "sx", "system"):
        return system(line if body is None else body, name, frame)
    if name.startswith("%"):
        raise UsageError("%%%s is a cell magic: it must begin the first line of the code" % name)
    table = LINES if body is None else CELLS
    if name in table:
        return table[name](line if name in VERBATIM else expanded_line(line, frame), *[body] * (body is not None),
                frame)
    if name in IGNORED and body is None:
        return None
    if name in COMMANDS and body is None:
        return system("%s %s" % (name if name != "ll" else "ls -l", line), "!", frame)
    if body is not None and name in PROGRAMS:
        return script("%s %s" % (name, line), body, frame)
    if body is not None and name in SHOWN:
        need("watch")
        return show(getattr(ipython(), SHOWN[name])(body), False)
    if name in (CELLS if body is None else LINES):
        raise UsageError("%%%s is a %s magic" % (name, "cell" if body is None else "line") + "; write " +
                         ("%%" if body is None else "%") + name)
    kind, sign = ("Line", "%") if body is None else ("Cell", "%%")
    raise UsageError("%s magic function `%s%s` not found." % (kind, sign, name))


def add_magic(function, cell, name=None):
    """Adds a magic of the code."""
    name = name or function.__name__
    if cell:
        CELLS[name] = lambda line, body, frame: function(line, body)
    else:
        LINES[name] = lambda line, frame: function(line)


def expanded_line(line, frame):
    need("command")
    return expanded(line, frame)


def system(command, name, frame):
    """Runs a shell command. With sx, it returns the lines of its output."""
    written, command = command, expanded_line(command, frame)
    if name == "!":
        shell(command, written)
        return None
    text, _ = output_of(command)
    return Lines(text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else [])


class Lines(list):
    """The output of a command: a list of lines, with its text in other forms."""
    l = list = property(lambda self: [*self])
    n = nlstr = property("\n".join)
    s = spstr = property(" ".join)

    @property
    def p(self):
        import pathlib
        return [pathlib.Path(line) for line in self]

    paths = p

    def grep(self, pattern, prune=False):
        import re
        return Lines(line for line in self if bool(re.search(pattern, line, re.I)) != prune)

    def fields(self, *wanted):
        rows = [line.split() for line in self]
        return rows if not wanted else Lines(" ".join(row[i] for i in wanted if i < len(row)) for row in rows)


Lines.__name__ = Lines.__qualname__ = "SList"
Lines.__module__ = "IPython.utils.text"


def words(line):
    import shlex
    return shlex.split(line)


def run_text(text, frame):
    """Runs code of a magic where its line is, and returns the value of its last expression."""
    codes = compiled(text, frame.f_code.co_filename)
    if frame.f_locals is frame.f_globals is NAMESPACE:
        return evaluate(codes)
    for code in codes:
        value = eval(code, frame.f_globals, frame.f_locals)
    return value


def on_line(text, frame):
    """Returns the text with blank lines above it, so that tracebacks name its line."""
    return "\n" * (frame.f_lineno - 1) + text


# ---- time


def time_line(line, frame):
    return timed(on_line(line, frame), frame)


def time_cell(line, body, frame):
    return timed(on_line(line + "\n" + body, frame), frame)


def timed(text, frame):
    import time
    before, started = used_time(), time.perf_counter()
    try:
        return run_text(text, frame)
    finally:
        wall = time.perf_counter() - started
        user, kernel = (now - then for now, then in zip(used_time(), before))
        print("CPU times: user %s, sys: %s, total: %s" % tuple(map(duration, (user, kernel, user + kernel))))
        print("Wall time: %s" % duration(wall))


def used_time():
    """Returns the CPU time of the process and its children so far: the user's, and the kernel's."""
    import resource
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + others.ru_utime, own.ru_stime + others.ru_stime


def duration(seconds):
    if seconds >= 60:
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return ("%dh " % hours if hours else "") + "%dmin %ds" % (minutes, rest)
    for size, unit in TIME_UNITS:
        if seconds >= size:
            break
    return "%.3g %s" % (seconds / size, unit)


def timeit_line(line, frame):
    options, statement = options_of(line, "n:r:t:c:p:qov")
    return time_often(options, "pass", statement, frame)


def timeit_cell(line, body, frame):
    options, setup = options_of(line, "n:r:t:c:p:qov")
    return time_often(options, setup or "pass", body, frame)


def time_often(options, setup, statement, frame):
    import timeit
    namespace = {**frame.f_globals, **frame.f_locals} if frame.f_locals is not frame.f_globals else NAMESPACE
    timer = timeit.Timer(statement, setup, globals=namespace)
    number, repeat = int(options.get("n", 0)), int(options.get("r", timeit.default_repeat + 2))
    if not number:
        number = timer.autorange()[0]
    each = [total / number for total in timer.repeat(max(repeat, 1), number)]
    mean = sum(each) / len(each)
    deviation = (sum((one - mean) ** 2 for one in each) / len(each)) ** 0.5
    if "q" not in options:
        print("%s \u00b1 %s per loop (mean \u00b1 std. dev. of %d run%s, %s loop%s each)" % (
            duration(mean), duration(deviation), len(each), "s" * (len(each) > 1),
            format(number, ","), "s" * (number > 1)))
    if "o" in options:
        import types
        return types.SimpleNamespace(average=mean, stdev=deviation, best=min(each), worst=max(each), timings=each,
                                     loops=number, repeat=len(each))


def options_of(line, known):
    """Returns the options before the rest of the line, and the rest. A known option with a colon has a value."""
    found, line = {}, line.strip()
    while line.startswith("-") and line[1:2] and line[1] in known.replace(":", ""):
        name, line = line[1], line[2:]
        if known[known.index(name) + 1:][:1] == ":":
            found[name], _, line = line.lstrip().partition(" ")
            line = line.lstrip()
        else:
            found[name] = True
            line = "-" + line if line and line[0] != " " else line.lstrip()
    return found, line


def profile(text, frame):
    import cProfile
    profiler = cProfile.Profile()
    try:
        return profiler.runcall(run_text, text, frame)
    finally:
        profiler.print_stats("tottime")


# ---- files, folders and variables of the environment


def write_file(line, body, frame):
    import os
    options, path = options_of(line, "a")
    path = os.path.expanduser((words(path) or [""])[0])
    if not path:
        raise UsageError("write %%writefile FILE")
    there = os.path.exists(path)
    print(("Appending to " if "a" in options and there else "Overwriting " if there else "Writing ") + path)
    with io.open(path, "a" if "a" in options else "w", encoding="utf-8") as file:
        file.write(body if body[-1:] == "\n" else body + "\n")


def change_folder(line, frame):
    import os
    path, before = (words(line) or ["~"])[-1], os.getcwd()
    os.chdir(folders[-1] if path == "-" and folders else os.path.expanduser(path))
    folders[:] = [before]
    print(os.getcwd())


folders = []  # the one before the last %cd


def show_folder(line, frame):
    return posix.getcwd()


def environment(line, frame):
    import os
    name, equals, value = line.partition("=")
    if not equals:
        name, _, value = line.partition(" ")
        equals = value.strip()
    name, value = name.strip(), value.strip()
    if equals:
        os.environ[name] = value
        print("env: %s=%s" % (name, value))
        return None
    if not name:
        return dict(os.environ)
    if name not in os.environ:
        raise UsageError("Environment does not have key: " + name)
    return os.environ[name]


def script(line, body, frame):
    """Runs a program with the cell as its input."""
    need("command")
    argv = words(expanded(line, frame))
    code = run_script(argv, body + "\n")
    if code:
        import subprocess
        raise subprocess.CalledProcessError(code, argv)


def run_file(line, frame):
    import os
    argv = [word for word in words(line) if word not in ("-i", "-t", "-n")]
    if not argv:
        raise UsageError("write %run FILE")
    path = argv[0] if os.path.exists(argv[0]) else argv[0] + ".py"
    with io.open(path, encoding="utf-8-sig") as file:
        code = compile(file.read(), path, "exec", 0, True)
    before, sys.argv = sys.argv, argv
    names = {**NAMESPACE, "__file__": path}
    try:
        exec(code, names)
    except SystemExit as e:
        if e.code:
            raise
    finally:
        sys.argv = before
    NAMESPACE.update({name: value for name, value in names.items() if not name.startswith("__")})


def capture(line, body, frame):
    import contextlib
    import types
    out, errors = io.StringIO(), io.StringIO()
    name = next((word for word in line.split() if not word.startswith("-")), None)
    captured.append([])
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            value = run_text(on_line("\n" + body, frame), frame)
            if value is not None:
                show(value, False)
    finally:
        outputs = captured.pop()
        if name:
            NAMESPACE[name] = types.SimpleNamespace(stdout=out.getvalue(), stderr=errors.getvalue(), outputs=outputs,
                                                    show=lambda: print(out.getvalue(), end=""))


# ---- names


def user_names():
    return [name for name in NAMESPACE if not name.startswith("_") and name not in ("In", "Out")]


def who(line, frame):
    print("   ".join(user_names()) or "Interactive namespace is empty.")


def whos(line, frame):
    for name in user_names():
        value = NAMESPACE[name]
        print("%-12s %-12s %.60s" % (name, type(value).__name__, repr(value).partition("\n")[0]))


def reset(line, frame):
    for name in user_names():
        del NAMESPACE[name]


def list_magics(line, frame):
    print("Line magics: " + "  ".join("%" + name for name in sorted({*LINES, *COMMANDS})))
    print("Cell magics: " + "  ".join("%%" + name for name in sorted({*CELLS, *PROGRAMS, *SHOWN})))


def history(line, frame):
    print("\n".join(SOURCES.values()))


def help_on(line, frame):
    describe_object(line, frame, False)


def help_with_source(line, frame):
    describe_object(line, frame, True)


def describe_object(name, frame, with_source):
    """Prints what is known of the value of a name."""
    import inspect
    name = name.strip()
    try:
        value = eval(name, frame.f_globals, frame.f_locals)
    except KeyboardInterrupt:
        raise
    except BaseException:
        print("Object `%s` not found." % name)
        return

    def field(title, get):
        try:
            text = get()
        except Exception:
            return
        if text:
            print("%s %s" % ((title + ":").ljust(11), text) if "\n" not in text else "%s:\n%s" % (title, text))

    field("Signature", lambda: name + str(inspect.signature(value)))
    field("Type", lambda: type(value).__name__)
    if not callable(value) and not inspect.ismodule(value):
        field("Value", lambda: repr(value)[:200])
        field("Length", lambda: str(len(value)))
    field("File", lambda: inspect.getfile(value))
    if with_source:
        field("Source", lambda: inspect.getsource(value).rstrip())
    field("Docstring", lambda: inspect.getdoc(value))


LINES = {
    "time": time_line, "timeit": timeit_line, "prun": lambda line, frame: profile(on_line(line, frame), frame),
    "cd": change_folder, "pwd": show_folder, "env": environment, "set_env": environment, "run": run_file, "who": who,
    "who_ls": lambda line, frame: sorted(user_names()), "whos": whos, "reset": reset,
    "lsmagic": list_magics, "history": history, "hist": history, "pinfo": help_on, "pinfo2": help_with_source,
    "pdoc": help_on, "psource": help_with_source,
    "pylab": lambda line, frame: run_text("import numpy\nimport numpy as np\nimport matplotlib.pyplot as plt\n"
                                          "from pylab import *", frame),
}
CELLS = {
    "time": time_cell, "timeit": timeit_cell,
    "prun": lambda line, body, frame: profile(on_line("\n" + body, frame), frame),
    "capture": capture, "writefile": write_file, "file": write_file, "script": script,
    "system": lambda line, body, frame: system(body, "sx", frame),
    "sx": lambda line, body, frame: system(body, "sx", frame),
}
VERBATIM = {"time", "timeit", "prun", "pinfo", "pinfo2", "pdoc", "psource", "script"}  # not searched for {expression}
