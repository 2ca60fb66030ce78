# Runs commands in the shell.
KILL_SECONDS = 2  # for an interrupted command to end
MAX_PAUSE = 0.05  # seconds between checks for the end of a command
INSTALL = r"\s*(?:python3?\s+-m\s+)?(?:pip3?|uv\s+pip)\s+install((?:\s+(?:'[^']*'|\"[^\"]*\"|[^\s;&|#<>()'\"$`])+)+)"
HARMLESS = {"-q", "-qq", "--quiet", "-U", "-qU", "--upgrade", "--user", "--no-input", "--no-cache-dir",
            "--disable-pip-version-check", "--system", "--break-system-packages", "-r", "--requirement"}
UNINSTALL = r"\s*(?:python3?\s+-m\s+)?(?:pip3?|uv\s+pip)\s+uninstall\b"


def shell(command, written):
    """Runs a command and returns its exit code. The engine has installed packages that the command names as written."""
    import os
    import re
    done = os.environ.get("FUMEHOOD_PACKAGES") and command == written and re.match(INSTALL, command)
    if done and HARMLESS.issuperset(re.sub(r"^(-r|--requirement=).+", "-r", word)
                                    for word in done.group(1).split() if word[0] == "-"):  # already installed
        command = ":" + command[done.end():]
    if re.match(UNINSTALL, command) and "PIP_BREAK_SYSTEM_PACKAGES" not in os.environ:
        need("magics")
        raise UsageError("packages cannot be uninstalled here: they stay until the sandbox ends. Install another "
                         "version, or use a new sandbox.")
    return spawn(["/bin/sh", "-c", command])


def output_of(command):
    """Runs a command and returns its output, also of stderr, and its exit code."""
    reader, writer = posix.pipe()
    try:
        pieces = []
        code = spawn(["/bin/sh", "-c", command], [(posix.POSIX_SPAWN_DUP2, writer, 1),
                (posix.POSIX_SPAWN_DUP2, writer, 2)],
                     lambda: (posix.close(writer), read_all(reader, pieces)))
        return b"".join(pieces).decode("utf-8", "replace"), code
    finally:
        posix.close(reader)


def read_all(reader, pieces):
    while not pieces or pieces[-1]:
        pieces.append(posix.read(reader, PIECE))


def spawn(argv, actions=(), then=None):
    """Runs a program, calls then while it runs, and returns its exit code."""
    import _functools
    import os
    import time
    flush(sys.stdout)
    flush(sys.stderr)
    children, status = [], None
    try:
        # The child has its own process group, so that an interrupt reaches all its children. Its id is stored before a
        # handler can raise.
        start = _functools.partial(posix.posix_spawnp, setpgroup=0, file_actions=actions)
        children.extend(map(start, argv[:1], (argv,), (os.environ,)))
        if then is not None:
            then()
        status = ended(time, children[0], None)
    finally:
        if status is None and children:
            for number, seconds in (INTERRUPT, KILL_SECONDS), (signal.SIGKILL, None):
                try:
                    os.killpg(children[0], number)
                except OSError:
                    pass
                if ended(time, children[0], seconds) is not None:
                    break
    code = NAMESPACE["_exit_code"] = os.waitstatus_to_exitcode(status)
    return code


def ended(time, child, seconds):
    """Waits for the child and returns its status. It polls: a blocking call would miss an interrupt before it."""
    started, pause = time.monotonic(), 0.0005
    while True:
        try:
            pid, status = posix.waitpid(child, posix.WNOHANG)
        except ChildProcessError:  # the code ignores SIGCHLD, or waits itself
            return 0
        if pid:
            return status
        if seconds is not None and time.monotonic() - started > seconds:
            return None
        time.sleep(pause)
        pause = min(pause * 1.25, MAX_PAUSE)


def run_script(argv, text):
    """Runs a program with the text as its input, and returns its exit code."""
    script = posix.memfd_create("script")
    try:
        with io.open(script, "wb", closefd=False) as f:
            f.write(text.encode("utf-8", "surrogateescape"))
        posix.lseek(script, 0, 0)
        return spawn(argv, [(posix.POSIX_SPAWN_DUP2, script, 0)])
    finally:
        posix.close(script)


def expanded(text, frame):
    """Replaces {expression} and $name by values of the code. It leaves the others for the shell, such as awk's
    braces."""
    import re
    out, at = [], 0
    for found in re.finditer(r"\{\{|\}\}|\$\$|\$\{|\{|\$([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text):
        start, end = found.span()
        if start < at:
            continue
        piece, name = found.group(), found.group(1)
        if name:
            value = evaluated(name, frame)
            if isinstance(value, (str, int, float)) or hasattr(value, "__fspath__"):
                piece = str(value)
        elif piece == "{":
            end = closing(text, start)
            piece = text[start:end]
            value = evaluated(piece[1:-1], frame) if end else MISSING
            if value is not MISSING:
                piece = str(value)
        elif piece != "${":
            piece = piece[0]
        out += text[at:start], piece
        at = end or len(text)
    return "".join(out) + text[at:]


MISSING = object()


def evaluated(text, frame):
    """Evaluates an expression, perhaps with a format as in an f-string. Returns MISSING if that fails."""
    for code in text, "f\"\"\"{%s}\"\"\"" % text:
        try:
            return eval(code, frame.f_globals, frame.f_locals)
        except SyntaxError:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException:
            break
    return MISSING


def closing(text, start):
    """Returns the end of the braces that open at start, or None."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
