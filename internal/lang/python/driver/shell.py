# Lines that begin with "!" or "%pip" run in the shell.
MAX_COMMANDS = 1000  # such lines in one run; each is parsed separately
KILL_SECONDS = 2  # for an interrupted command to end
MAX_PAUSE = 0.05  # seconds between checks for the end of a command
SHELL = "__shell__"
INSTALL = r"\s*(?:python3?\s+-m\s+)?(?:pip3?|uv\s+pip)\s+install((?:\s+(?:'[^']*'|\"[^\"]*\"|[^\s;&|#<>()'\"$`])+)+)"
HARMLESS = {"-q", "-qq", "--quiet", "-U", "-qU", "--upgrade", "--user", "--no-input", "--no-cache-dir",
            "--disable-pip-version-check", "--system", "--break-system-packages"}


def parse_shell(source, name, error):
    """Returns the tree of code with lines for the shell, or None if these do not explain the syntax error."""
    lines, calls = source.split("\n"), 0
    while calls < MAX_COMMANDS:
        at = (error.lineno or 0) - 1
        if not 0 <= at < len(lines) or not lines[at].lstrip().startswith(("!", "%pip ")):
            return None
        line = lines[at]
        indent = line[:len(line) - len(line.lstrip())]
        end = at
        while line.endswith("\\") and end + 1 < len(lines):
            end += 1
            line = line[:-1] + lines[end]
        lines[at:end + 1] = [indent + "%s(%r)" % (SHELL, line.strip()[1:])] + [""] * (end - at)
        calls += 1
        try:
            tree = compile("\n".join(lines), name, "exec", ONLY_AST | flags, True)
            return tree if statements(tree) == calls else None
        except SyntaxError as e:
            error = e
    return None


def statements(tree):
    """Counts the shell lines that are statements. A shell line in brackets is an error in the code."""
    count, todo = 0, [tree]
    while todo:
        node = todo.pop()
        if type(node).__name__ == "Expr" and getattr(getattr(node.value, "func", None), "id", None) == SHELL:
            count += 1
        for field in "body", "orelse", "handlers", "finalbody", "cases":
            children = getattr(node, field, None)
            if isinstance(children, list):
                todo += children
    return count


def shell(command):
    import _functools
    import os
    import re
    import time
    flush(sys.stdout)
    flush(sys.stderr)
    done = os.environ.get("FUMEHOOD_PACKAGES") and re.match(INSTALL, command)
    if done and HARMLESS.issuperset(word for word in done.group(1).split() if word[0] == "-"):  # already installed
        command = ":" + command[done.end():]
    children, status = [], None
    try:
        # The child has its own process group, so that an interrupt reaches all its children. Its id is stored before a
        # handler can raise.
        spawn = _functools.partial(posix.posix_spawn, setpgroup=0)
        children.extend(map(spawn, ("/bin/sh",), (["sh", "-c", command],), (os.environ,)))
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
    NAMESPACE["_exit_code"] = os.waitstatus_to_exitcode(status)


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


setattr(builtins, SHELL, shell)
