# Keeps the output of earlier runs apart: of their threads and tasks, and of processes that run on.
from _contextvars import Context, copy_context

need("limits")
OWN_PIPES = 2  # stdout and stderr


def write_aside(text):
    """Writes background output."""
    data = str.__str__(text).encode("utf-8", "backslashreplace")
    try:
        for at in range(0, len(data), MAX_MESSAGE):
            posix.write(aside, TEXT + data[at:at + MAX_MESSAGE])
    except OSError:
        pass


def write_apart(stream, text):
    """Writes to stdout or stderr; the method of both while code of earlier runs may run."""
    if not is_late() or not isinstance(text, str):
        return io.TextIOWrapper.write(stream, text)
    write_aside(text)
    return len(text)


def show_aside(value):
    try:
        text = limited(repr, value)
    except Exception:
        text = "<%s>" % type(value).__name__
    write_aside(text + "\n")


def leave_pipes():
    """Moves to new pipes for stdout and stderr, because processes that run on have the old ones."""
    import _socket
    socket = _socket.socket(fileno=aside)
    try:
        while take_pipes(socket, _socket.MSG_DONTWAIT):  # an answer that a signal handler kept from being read
            pass
        socket.send(PIPES)
        pipes = take_pipes(socket, 0)
        if pipes and len(pipes) == OWN_PIPES:
            for number, pipe in enumerate(pipes, 1):
                posix.dup2(pipe, number)
        close_all(pipes or ())
    finally:
        socket.detach()


def take_pipes(socket, flags):
    """Returns the descriptors of one answer of the guest, or None without an answer."""
    try:
        _, rights, _, _ = socket.recvmsg(1, 64, flags)
    except BlockingIOError:
        return None
    data = b"".join(part for _, _, part in rights)
    return [int.from_bytes(data[at:at + 4], sys.byteorder) for at in range(0, len(data), 4)]


def close_all(numbers):
    for number in numbers:
        posix.close(number)


def extend_pool(module):
    """Lets a thread of a pool write for the run that submitted its task, not for the run that started the thread."""
    submit = module.ThreadPoolExecutor.submit

    def submit_for_run(self, fn, /, *args, **kwargs):
        return submit(self, copy_context().run, fn, *args, **kwargs)

    submit_for_run.__doc__ = submit.__doc__
    module.ThreadPoolExecutor.submit = submit_for_run


def start_owned_thread(function, args, kwargs={}, /):
    """Starts a thread that writes for the current run."""
    if type(args) is not tuple or type(kwargs) is not dict:
        return START_THREAD(function, args, kwargs)
    return START_THREAD(run_of_owner(), (function, *args), kwargs)


def start_owned_joinable(function, handle=None, daemon=True):
    import _functools
    return START_JOINABLE(_functools.partial(run_of_owner(), function), handle, daemon)


def run_of_owner():
    """Returns what calls a function of the current run, in an empty context. It is C, so tracebacks do not show it."""
    context = Context()
    context.run(OWNER.set, OWNER.get(runs))
    return context.run


def replace_starts(threading):
    """Lets module threading, which was imported before, start threads through the driver."""
    for name, function in ("_start_new_thread", start_thread), ("_start_joinable_thread", start_joinable_thread):
        if hasattr(threading, name):
            setattr(threading, name, function)
