# Translates notebook syntax: magics, shell commands and help. Only code that is not valid Python is searched for it.
# Each such line becomes one call on the same line, so that line numbers stay.
MAX_CALLS = 1000  # lines of notebook syntax in one run; each is parsed separately
CALL = "__notebook__"
ASSIGNMENT = r"([\w\s.,\[\]()'\"*:]*[\w\s.,\[\])'\"])=\s*([!%].*)"
COMMAND = r"!(!?)(.*)"
MAGIC = r"%(%?)([A-Za-z_][\w.]*)\s*(.*)"
INSTALLER = r"(?:pip3?|conda|uv\s+pip)\s+install\s"  # also without "%", as IPython allows
HELP = r"(\??\??)([A-Za-z_][\w.]*(?:\[[^\]]*\])*)(\??\??)"


def parse_notebook(source, name, error):
    """Returns the syntax tree of code with notebook syntax. It raises the syntax error that this does not explain."""
    import re
    lines, calls = source.split("\n"), 0
    first = next((i for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)
    if lines[first].startswith("%%"):
        call = translate(re, lines[first], "\n".join(lines[first + 1:]))
        if call is not None:
            tree = compile("\n" * first + call, name, "exec", ONLY_AST | flags, True)
            mark_calls(tree, lines)
            return tree
    while True:
        at = (error.lineno or 0) - 1
        if not 0 <= at < len(lines) or calls == MAX_CALLS:
            raise error
        end, line = at, lines[at]
        while line.endswith("\\") and end + 1 < len(lines):
            end += 1
            line = line[:-1] + lines[end]
        call = translate(re, line.strip(), None)
        if call is None:
            raise error
        lines[at:end + 1] = [line[:len(line) - len(line.lstrip())] + call] + [""] * (end - at)
        calls += 1
        try:
            tree = compile("\n".join(lines), name, "exec", ONLY_AST | flags, True)
        except SyntaxError as e:
            error = e
            continue
        if mark_calls(tree, source.split("\n")) != calls:  # one is inside brackets, where it is an error of the code
            raise error
        return tree


def translate(re, line, body):
    """Returns the line as Python, or None. The body is that of a cell magic."""
    target, prefix = "", re.fullmatch(ASSIGNMENT, line)
    if prefix:
        target, line = prefix.group(1).rstrip() + " = ", prefix.group(2)
    found = re.fullmatch(COMMAND, line)
    if found:
        return "%s%s(%r, %r)" % (target, CALL, "sx" if target or found.group(1) else "!", found.group(2))
    if re.match(INSTALLER, line):
        line = "%" + line
    found = re.fullmatch(MAGIC, line)
    if found:
        cell, name, rest = found.groups()
        if body is None or not cell:
            return "%s%s(%r, %r)" % (target, CALL, cell + name, rest)
        return "%s(%r, %r, %r)" % (CALL, name, rest, body)
    found = re.fullmatch(HELP, line)
    if found and bool(found.group(1)) != bool(found.group(3)):
        return "%s(%r, %r)" % (CALL, "pinfo2" if "??" in line else "pinfo", found.group(2))
    return None


def mark_calls(tree, lines):
    """Counts the translated lines that are statements, or the value of an assignment. In tracebacks, each is a whole
    line of the code, because its columns are those of the translation."""
    count, todo = 0, [tree]
    while todo:
        node = todo.pop()
        call = getattr(node, "value", None)
        if getattr(getattr(call, "func", None), "id", None) == CALL:
            count += 1
            line = lines[node.lineno - 1]
            node.col_offset = len(line) - len(line.lstrip())
            for part in call, call.func, *call.args:
                part.col_offset, part.end_col_offset = node.col_offset, len(line.encode())
            node.end_col_offset = call.end_col_offset
        for field in "body", "orelse", "handlers", "finalbody", "cases":
            children = getattr(node, field, None)
            if isinstance(children, list):
                todo += children
    return count


def call_notebook(name, line, body=None):
    need("magics")
    return call_magic(name, line, body, sys._getframe(1))


setattr(builtins, CALL, call_notebook)
