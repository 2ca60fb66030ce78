# Reports exceptions as the interpreter prints them.
need("limits")
MAX_VALUE = MAX_TRACE = 8 << 20  # bytes of an exception's text, and of its traceback
UNPRINTABLE = "<exception str() failed>"  # as in package traceback


def report(failure):
    """Prints and reports the exception that ended the code. Returns its exit code."""
    kind = type(failure)
    if issubclass(kind, SystemExit):
        return leave_with(failure)
    try:
        BaseException.with_traceback(failure, strip(failure.__traceback__))
        name = name_of(kind)
    except BaseException:
        name = "Exception"
    try:
        import traceback
        value, trace = limited(describe, traceback, failure)
    except BaseException:  # the code broke a dependency of package traceback, or hangs
        value, trace = describe_simply(failure, name)
    hook = sys.excepthook
    if hook is EXCEPTHOOK or interruptible(hook, kind, failure, failure.__traceback__) is not None:
        interruptible(complain, trace)
    send(b"error", run_id, *(cut(text, size) for text, size in ((name, 1 << 10), (value, MAX_VALUE), (trace.rstrip("\n"), MAX_TRACE))))
    return 1


def leave_with(failure):
    """Returns the exit code of a SystemExit, after its message."""
    try:
        code = failure.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        complain(limited(str, code) + "\n")
    except BaseException:
        pass
    return 1


def name_of(kind):
    return kind.__qualname__ if kind.__module__ in ("__main__", "builtins") else "%s.%s" % (kind.__module__, kind.__qualname__)


def cut(text, size):
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > size:
        data = data[:size].decode("utf-8", "ignore").encode() + b"\n[%d more bytes]" % (len(data) - size)
    return data


def complain(text):
    """Writes to the current stderr of the code."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except Exception:
        try:
            posix.write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


def strip(trace):
    """Removes the frames above those of the code: frames of the driver, and of asyncio if the code awaits."""
    first = trace
    while first is not None and (first.tb_frame.f_code.co_filename == FILE or "/asyncio/" in first.tb_frame.f_code.co_filename):
        first = first.tb_next
    while first is None and trace is not None and trace.tb_frame.f_code.co_filename == FILE:
        trace = trace.tb_next
    return first or trace


def describe(traceback, failure):
    """Returns the text of the exception, and everything that the interpreter would print."""
    text = traceback.TracebackException(type(failure), failure, failure.__traceback__)
    seen, todo = set(), [text]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one.stack is not None:
            one.stack[:] = [frame for frame in one.stack if frame.filename != FILE]
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
    if isinstance(failure, SyntaxError):
        value = getattr(text, "msg", None)
    else:
        value = text._str
        if sys.version_info[:2] in ((3, 10), (3, 11)) and isinstance(failure, (NameError, AttributeError)):
            text._str = value = value + suggestion(failure)
    return str(value), "".join(text.format())


def suggestion(failure):
    """Returns ". Did you mean: ...?", which Python 3.10 and 3.11 compute only when they print."""
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.__excepthook__(type(failure), failure, None)
        _, mark, rest = sys.stderr.getvalue().rpartition(". Did you mean: ")
    finally:
        sys.stderr = before
    return mark + rest.partition("\n")[0] if mark else ""


def describe_simply(failure, name):
    """Does the same as describe, with only the core of the interpreter."""
    try:
        value = limited(str, failure)
    except BaseException:
        value = UNPRINTABLE
    lines, trace = ["Traceback (most recent call last):"], failure.__traceback__
    while trace is not None and len(lines) < 200:
        code = trace.tb_frame.f_code
        if code.co_filename != FILE:
            lines.append('  File "%s", line %d, in %s' % (code.co_filename, trace.tb_lineno, code.co_name))
            source = SOURCES.get(code.co_filename, "").split("\n")[trace.tb_lineno - 1:trace.tb_lineno]
            lines += ["    " + line.strip() for line in source if line.strip()]
        trace = trace.tb_next
    lines.append("%s: %s" % (name, value) if value else name)
    return value, "\n".join(lines) + "\n"
