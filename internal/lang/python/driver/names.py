# Completes names.
need("limits")
MAX_NAMES = 60  # of one answer; a frame has fewer than 64 fields
MAX_NAME = 200  # bytes


def complete(id, code, cursor):
    cursor = int(cursor)
    found = []
    interruptible(find, code[:cursor].decode("utf-8", "ignore"), found)
    prefix, names = found.pop() if found else ("", [])
    send(b"matches", id, b"%d" % (cursor - len(prefix.encode())), *names)


def find(text, found):
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] in "_."):
        start -= 1
    path, dot, prefix = text[start:].rpartition(".")
    names = limited(members, path.split(".")) if dot else [*NAMESPACE, *vars(builtins), *keywords()]
    names = {name for name in names if isinstance(name, str) and name.startswith(prefix) and name.isidentifier()}
    if not prefix.startswith("_"):
        names = {name for name in names if not name.startswith("_")}
    names = [name.encode("utf-8", "ignore") for name in sorted(names)]
    found.append((prefix, [name for name in names if len(name) <= MAX_NAME][:MAX_NAMES]))


def keywords():
    import keyword
    return keyword.kwlist


def members(path):
    """Lists the attributes of the value of a dotted name. It calls no properties and no __getattr__."""
    if path[0] in NAMESPACE:
        value = NAMESPACE[path[0]]
    else:
        value = vars(builtins)[path[0]]
    for name in path[1:]:
        value = attribute(value, name)
    return dir(value)


def attribute(value, name):
    for kind in type(value).__mro__:
        if name in vars(kind):
            found = vars(kind)[name]
            if type(found).__name__ in ("member_descriptor", "getset_descriptor"):
                return getattr(value, name)
            if hasattr(type(found), "__set__"):
                raise AttributeError(name)
            break
    else:
        found = None
    own = object.__getattribute__(value, "__dict__") if not isinstance(value, type) else {}
    for scope in [own] + [vars(kind) for kind in value.__mro__] if isinstance(value, type) else [own]:
        if name in scope:
            return scope[name]
    if found is None:
        raise AttributeError(name)
    return found
