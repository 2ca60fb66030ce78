# Lets other modules find what the code defined: inspect its source, and processes of multiprocessing its definitions.
DEFINITIONS = {"Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef"}


def extend_inspect(inspect):
    """Lets inspect find classes. It finds functions by their code objects, and classes by the file of their module."""
    getfile, findsource = inspect.getfile, inspect.findsource

    def file_of(object):
        found = class_source(object)
        return found[0] if found else getfile(object)

    def find(object):
        found = class_source(object)
        return (SOURCES[found[0]].splitlines(True), found[1] - 1) if found else findsource(object)

    file_of.__doc__, find.__doc__ = getfile.__doc__, findsource.__doc__
    inspect.getfile, inspect.findsource = file_of, find


def class_source(kind):
    """Returns the cell that defines a class of the code, and its line there, or None."""
    if not isinstance(kind, type) or kind.__module__ != "__main__":
        return None
    codes = (getattr(getattr(method, "__func__", method), "__code__", None) for method in vars(kind).values())
    names = {code.co_filename for code in codes if code is not None} & SOURCES.keys()
    word = "class " + kind.__name__
    for name in [*names] or reversed(SOURCES):
        if word not in SOURCES[name]:
            continue
        try:
            tree = parse(SOURCES[name], name)
        except SyntaxError:
            continue
        line = class_line(tree, kind.__qualname__)
        if line:
            return name, line


def class_line(tree, qualname):
    """Returns the line of the last class of this name in a tree, or 0."""
    last, todo = 0, [(tree, "")]
    while todo:
        node, path = todo.pop()
        kind = type(node).__name__
        if kind == "ClassDef":
            if path + node.name == qualname:
                last = max(last, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))
            path += node.name + "."
        elif kind in ("FunctionDef", "AsyncFunctionDef"):
            path += node.name + ".<locals>."
        for field in "body", "orelse", "handlers", "finalbody", "cases":
            children = getattr(node, field, None)
            if isinstance(children, list):
                todo += [(child, path) for child in children]
    return last


def extend_spawn(spawn):
    """Gives processes that do not fork a main module with the definitions of the code, as they get that of a
    program."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        data = prepare(name)
        if posix.getpid() == PID and not any(key.startswith("init_main_from") for key in data):
            data["init_main_from_path"] = definitions()
        return data

    spawn.get_preparation_data = get_preparation_data


def definitions():
    """Writes the imports, functions, classes and literals of all runs to a file, and returns its path."""
    global definitions_at
    if definitions_at[0] != runs:
        import ast
        import tempfile
        parts = []
        for name, source in SOURCES.items():
            try:
                nodes = parse(source, name).body
            except SyntaxError:
                continue
            for node in nodes:
                if type(node).__name__ in DEFINITIONS or is_literal(ast, node):
                    text = ast.unparse(node).replace("\n", "\n    ")
                    parts.append("try:\n    %s\nexcept Exception:\n    pass\n" % text)
        number, path = tempfile.mkstemp("_main.py", "cells-")
        with io.open(number, "w", encoding="utf-8") as file:
            file.write("".join(parts))
        definitions_at = runs, path
    return definitions_at[1]


definitions_at = 0, None


def is_literal(ast, node):
    if type(node).__name__ not in ("Assign", "AnnAssign"):
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True
