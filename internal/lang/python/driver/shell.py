# Lines that begin with "!" run in the shell.
MAX_COMMANDS = 1000  # such lines in one run; each costs a parse
SHELL = "__shell__"


def parse_shell(source, name, error):
    """Returns the tree of code with lines for the shell, or None if that is not what is wrong with it."""
    lines, calls = source.split("\n"), 0
    while calls < MAX_COMMANDS:
        at = (error.lineno or 0) - 1
        if not 0 <= at < len(lines) or not lines[at].lstrip().startswith("!"):
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
    """Counts the shell's lines that are statements. One within brackets is an error in the code."""
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
    import os
    flush(sys.stdout)
    flush(sys.stderr)
    NAMESPACE["_exit_code"] = None
    child = posix.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ)
    status = None
    try:
        _, status = posix.waitpid(child, 0)
    except BaseException:
        if status is None:
            posix.kill(child, INTERRUPT)  # it has it already if the whole group was interrupted
            posix.waitpid(child, 0)
        raise
    NAMESPACE["_exit_code"] = os.waitstatus_to_exitcode(status)


setattr(builtins, SHELL, shell)
