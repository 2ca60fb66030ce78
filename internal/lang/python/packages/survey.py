# Determines which packages a run needs and this interpreter lacks. Reads the variable "question" and prints a survey as
# JSON. It does not execute the code, and ignores invalid files.
#
# A run waits for it. Importing modules and compiling this file takes longer than examining 1,000 lines of code. So
# json, re, ast and importlib are imported where they are used, and functions that most code does not need are in
# rest.py. The variable REST holds its text.
import gc, os, sys

gc.disable()  # which would look at each syntax tree again and again

WORKSPACE = "/workspace"
MAX_FILES, MAX_BYTES = 500, 1 << 20
CALL = r"\b(?:__import__|import_module)\(\s*['\"]([\w.]+)['\"]"
LISTS = "requirements.txt", "pyproject.toml"
ONLY_AST = 0x400  # ast.PyCF_ONLY_AST

STANDARD = getattr(sys, "stdlib_module_names", sys.builtin_module_names)  # before 3.10, others are searched like packages

requirements, found, seen = list(question["requirements"]), {}, set()
# Where the code finds its own modules. Its file is in the workspace, or outside if the workspace is a host folder.
PLACES = list(dict.fromkeys([os.path.dirname(os.path.join(WORKSPACE, question["name"])), WORKSPACE]))


def unix(text):
    """Returns a text without a byte order mark and without line ends of Windows."""
    return text[text.startswith("\ufeff"):].replace("\r\n", "\n")


def read(path):
    with open(path, "rb") as f:
        return unix(f.read(MAX_BYTES).decode("utf-8", "replace"))


def rest(name):
    """Returns a function of rest.py."""
    if name not in globals():
        exec(REST, globals())
    return globals()[name]


def parse(code):
    for attempt in str, lambda code: rest("plain")(code):
        try:
            return compile(attempt(code), "code", "exec", ONLY_AST)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    return None  # the run itself reports the error


ENDS = {"exit", "_exit", "quit"}
RUNS = "subprocess", "check_call", "check_output", "Popen", "os.system", "pip.main"
CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def is_a(node, kind):
    return type(node).__name__ == kind


def catching(node):
    """Returns the handler of a try statement for a failed import, or None."""
    for h in node.handlers:
        if h.type is None:
            return h
        names = [getattr(t, "id", getattr(t, "attr", "")) for t in (h.type.elts if is_a(h.type, "Tuple") else [h.type])]
        if CAUGHT & set(names):
            return h
    return None


def insists_on_import(handler, lines):
    """Reports whether a handler ends the program, or installs the missing module with pip."""
    for s in handler.body:
        called = getattr(getattr(s, "value", None), "func", None) if is_a(s, "Expr") else None
        if is_a(s, "Raise") or getattr(called, "id", getattr(called, "attr", "")) in ENDS:
            return True
    text = "\n".join(lines[handler.lineno - 1:getattr(handler, "end_lineno", None)])
    return "pip" in text and any(word in text for word in RUNS)


def inner(node):
    """Yields the statements in a statement."""
    for field in "body", "orelse", "finalbody", "handlers", "cases":
        children = getattr(node, field, None)
        if type(children) is list:
            yield from children


def imported(body):
    """Returns the first parts of the names of all modules that statements import."""
    todo, names = list(body), set()
    while todo:
        node = todo.pop()
        if is_a(node, "Import"):
            names |= {a.name.split(".")[0] for a in node.names}
        elif is_a(node, "ImportFrom") and not node.level and node.module:
            names.add(node.module.split(".")[0])
        todo += inner(node)
    return names


def imports(tree, code):
    """Yields imported names with their line, and whether the import is optional. It visits only statements."""
    if "__import__(" in code or "import_module(" in code:
        import re
        for call in re.finditer(CALL, code):
            yield call.group(1), code.count("\n", 0, call.start()) + 1, False
    todo, lines = [(tree, None)], code.split("\n")
    while todo:
        node, needed = todo.pop()  # needed: the required top-level modules; None means all
        kind = type(node).__name__
        if kind == "Import":
            for a in node.names:
                yield a.name, node.lineno, needed is not None and a.name.split(".")[0] not in needed
        elif kind == "ImportFrom" and not node.level and node.module:
            for a in node.names:
                optional = needed is not None and node.module.split(".")[0] not in needed
                yield node.module + "." + a.name, node.lineno, optional
        elif kind == "Try":
            handler, body = catching(node), needed
            if handler and needed is None and not insists_on_import(handler, lines):
                body = imported(node.body) & imported(handler.body)  # the handler imports these again
            todo += [(n, body) for n in node.body]
            todo += [(n, ()) for h in node.handlers for n in h.body]
            todo += [(n, needed) for n in node.orelse + node.finalbody]
        elif kind == "If" and "TYPE_CHECKING" in code and rest("mentions")(node.test, "TYPE_CHECKING"):
            todo += [(n, ()) for n in node.body] + [(n, needed) for n in node.orelse]
        else:
            todo += [(n, needed) for n in inner(node)]


def local(name):
    """Returns the files of a module in the workspace, or None."""
    for base in (os.path.join(place, name) for place in PLACES):
        if os.path.isfile(base + ".py"):
            return [base + ".py"]
        files = []
        for folder, _, names in os.walk(base):
            files += [os.path.join(folder, n) for n in names if n.endswith(".py")]
            if len(files) > MAX_FILES:
                break
        if files:
            return files[:MAX_FILES]
    return None


def spec(name):
    """Returns the spec of a module, or None. It imports the parents of the module."""
    if "." in name:
        import importlib.util
        return importlib.util.find_spec(name)
    for finder in sys.meta_path:
        one = finder.find_spec(name, None)
        if one is not None:
            return one
    return None


def is_installed(name):
    try:
        return spec(name) is not None
    except Exception:
        return False


def examine(code, stated):
    """Collects missing imports of the code and of its own modules. The imports of the code may be given."""
    todo, files = [code], 0
    while todo:
        code = todo.pop()
        if stated:
            names, stated = [(i["name"], i["line"], i["optional"]) for i in stated], None
        else:
            tree = parse(code)
            names = imports(tree, code) if tree else ()
        for name, line, optional in names:
            top = name.split(".")[0]
            if top in STANDARD or top == "__main__":
                continue
            if top not in seen:
                seen.add(top)
                own = local(top)
                if own is not None:
                    seen.add(top + "/")
                    for path in own[:max(0, MAX_FILES - files)]:
                        files += 1
                        try:
                            todo.append(read(path))
                        except OSError:
                            pass
            if top + "/" in seen:
                continue
            above = name.rpartition(".")[0]
            if is_installed(top) and not (hollow(top) and not is_installed(name) and (not is_installed(above) or hollow(above))):
                continue
            old = found.get(name)
            if old:
                line, optional = min(line, old["line"]), optional and old["optional"]
            found[name] = {"name": name, "line": line, "optional": optional}


def hollow(name):
    """Reports whether a module is a bare namespace that several packages share."""
    try:
        return spec(name).origin is None
    except Exception:
        return False


if question["auto"]:
    code = unix(question["code"])
    try:
        code = code or read(os.path.join(WORKSPACE, question["name"]))
    except OSError:
        pass
    if "# /// script" in code or any(os.path.exists(os.path.join(WORKSPACE, name)) for name in LISTS):
        rest("lists")(code)
    examine(code, question["imports"])

survey = {
    "requirements": [r for r in dict.fromkeys(requirements) if not rest("satisfied")(r)],
    "found": sorted(found.values(), key=lambda f: (f["line"], f["name"]))[:1000],
}
if not question["auto"]:
    survey.update(rest("host")())
if question["auto"] and not survey["requirements"]:  # without json: names need no escapes
    text = ", ".join('{"name": "%s", "line": %d, "optional": %s}' % (f["name"], f["line"], str(f["optional"]).lower())
                     for f in survey["found"])
    sys.stdout.buffer.write(('{"requirements": [], "found": [%s]}\n' % text).encode())
else:
    import json
    print(json.dumps(survey))
