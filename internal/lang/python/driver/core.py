# The driver of a context. Package driver specifies the protocol. base.py and this part are compiled at the start, which
# must be fast; run.py before the first request arrives.
CHANNEL = 250  # the channel moves to this descriptor and the next two, so that files of the code get the usual numbers
TEXT, PIPES = b"t", b"p"  # messages on the socket for background output; package guest specifies them
MAX_MESSAGE = 32 << 10  # bytes
MAX_HELD = 4 << 10  # bytes of a report that waits for the next
LEVELS = 4  # of serve: one timer has one pending signal, and each level catches one
SPAWNS = {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"}  # audit events

take_parts(sys.argv[2:])
inbox, outbox = [], []  # bytes to be handled; frames to be written
written = []  # bytes of the first frame, by write
sending = over = failed = False  # failed: the run has reported an error
request = None  # the next request, with its fields
run_id = None  # of the current run
writing = thread.RLock()  # held while a report is written: a thread that calls a tool writes too
spawned = False  # the current run has started a process


def send(kind, *fields, hold=False):
    """Writes one report. A small one that is held is written with the next."""
    global run_id, failed
    if posix.getpid() != PID:
        return  # a fork of the context
    frame = b" ".join([kind, *[b"%d" % len(field) for field in fields]]) + b"\n" + b"".join(fields)
    if kind == b"done":
        run_id, failed = None, False
    elif kind == b"error":
        failed = True
    outbox.append(frame)
    if not hold or len(frame) > MAX_HELD:
        drain()


def drain():
    """Writes the pending reports.

    A signal handler of the code may run after each call here, and raise or display. Half a frame would break the
    protocol. So the length of each write is in a list before a handler can run (extend and map are C), and the next
    call continues from there.
    """
    with writing:
        write_pending()


def write_pending():
    global sending
    if sending:
        return
    sending = True
    try:
        while outbox:
            if len(outbox) > 1 and not written:
                outbox[:2] = [outbox[0] + outbox[1]]  # one write wakes the guest once
            rest = memoryview(outbox[0])[sum(written):]
            if rest:
                written.extend(map(posix.write, (outgoing,), (rest,)))
            else:
                del written[:], outbox[0]
    except OSError as e:
        if e.errno in (9, 32):  # EBADF, EPIPE: the engine has ended, or the code closed the channel
            posix._exit(1)
        raise
    finally:
        sending = False


def receive():
    """Reads the next request, or None at the end. It keeps the bytes read so far if a handler raises: see drain."""
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
    """Ignores SIGINT outside the code."""


def leave():
    """Closes the channel in a fork of the context."""
    global aside
    for number in incoming, outgoing, aside:
        try:
            posix.close(number)
        except OSError:
            pass
    aside = -1


def audit(event, args):
    global spawned
    if event in SPAWNS:
        spawned = True


def step():
    """Handles one request."""
    global request, run_id, sending
    if posix.getpid() != PID:
        posix._exit(1)
    sending = False  # not any more: see serve
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
    elif kind == b"tools":
        need("calls")
        define_tools(*fields)
    elif kind == b"export" or kind == b"import":
        need("state")
        (exported if kind == b"export" else imported)(*fields)
    elif kind == b"complete":
        need("names")
        complete(*fields)


def serve(level):
    """Handles requests until the channel ends.

    A handler may raise again at once: in the except clause, and at the backward jump behind it, which no try covers.
    Each level catches what escapes the one below. The timer is stopped first, because a handler that takes longer than
    the timer's interval would raise at every level. Flags that drain sets may stay set, so code that runs without a
    pending report resets them.
    """
    while not over:
        try:
            if level:
                serve(level - 1)
            else:
                step()
        except BaseException:
            signal.setitimer(signal.ITIMER_REAL, 0)


def start():
    """Moves the channel and hides the driver's arguments."""
    global incoming, outgoing, aside
    channel = []
    for number in 3, 4, 5:
        to = CHANNEL + len(channel)
        try:
            posix.dup2(number, to, inheritable=False)
            posix.close(number)
        except OSError:  # the limit of open files is lower
            posix.set_inheritable(number, False)
            to = number
        channel.append(to)
    incoming, outgoing, aside = channel
    sys.addaudithook(audit)
    posix.register_at_fork(after_in_child=leave)
    signal.signal(INTERRUPT, idle)
    sys.argv = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = sys.orig_argv[:1]


start()
send(b"ready", sys.version.split()[0].encode())
need("run")
look_like_main()
serve(LEVELS)
need("end")
