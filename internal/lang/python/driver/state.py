# Exports and imports the variables of a context. Package driver specifies the requests.
import json

need("codec")
VERSION = 1
MAX_DOCUMENT = 20 << 20  # bytes; the engine's
MAX_MISSING = 1000  # names in the list of what is not carried
OWN_NAMES = {"_", "In", "Out", "exit", "quit", "get_ipython"}


def exported(id, names):
    """Reports the variables, or those of these names."""
    report_state(id, lambda: document(json.loads(names)))


def imported(id, text):
    """Sets the variables of a document, and reports their names and what failed."""
    report_state(id, lambda: set_all(json.loads(text)))


def report_state(id, function):
    answer = []

    def work():
        text = json.dumps(function(), separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > MAX_DOCUMENT:
            raise ValueError("the document has %d bytes, over %d; name the variables" % (len(text), MAX_DOCUMENT))
        answer.append(text)

    failure = interruptible(work)
    if failure is None:
        send(b"state", id, b"1", answer[0])
    else:
        send(b"state", id, b"0", ("%s: %s" % (type(failure).__name__, failure)).encode("utf-8", "replace")[:4000])


def document(names):
    variables, first, absent = {}, {}, []
    encoder = Encoder(special=encode_special)
    for name in names or [name for name in list(NAMESPACE) if is_variable(name)]:
        used, count = encoder.used, len(encoder.alive)
        try:
            if name not in NAMESPACE:
                raise Refused("there is no variable of this name")
            encoder.count(len(name))
            variables[name] = encoder.encode(NAMESPACE[name])
            first[name] = count
        except Exception as e:
            for value in encoder.alive[count:]:
                encoder.known.pop(id(value), None)
            del encoder.alive[count:]
            encoder.open.clear()
            encoder.used = used
            reason = str(e) if isinstance(e, Refused) else "%s: %s" % (type(e).__name__, e)
            if len(absent) < MAX_MISSING:
                kind = type_name(NAMESPACE[name]) if name in NAMESPACE else ""
                absent.append({"name": name, "type": kind[:100], "reason": reason[:500]})
    return {"version": VERSION, "language": "python", "variables": variables, "first": first,
            "missing": absent}


def is_variable(name):
    return type(name) is str and name[:2] != "__" and name not in OWN_NAMES and not is_stub(NAMESPACE[name])


def is_stub(value):
    """Reports whether a value is the function of a tool."""
    return "calls" not in PARTS and getattr(getattr(value, "__code__", None), "co_filename", "") == FILE


def encode_special(encoder, value, depth):
    """Encodes modules, functions and classes of the code, and instances of these classes."""
    kind = type(value)
    if kind is type(sys):
        return tagged("module", value.__name__)
    place, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if place != "__main__" and isinstance(place, str) and isinstance(name, str) and \
            getattr(sys.modules.get(place), name, None) is value:
        return tagged("source", {"name": name, "from": place})
    if kind is type(encode_special) or isinstance(value, type):
        return tagged("source", source_of_definition(encoder, value))
    if getattr(kind, "__module__", "") == "__main__" and NAMESPACE.get(kind.__name__) is kind:
        plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
        if plain and not hasattr(kind, "__slots__") and kind.__basicsize__ == PlainObject.__basicsize__:
            return encoder.once(value, "object", lambda: {
                "class": kind.__name__, "state": encoder.encode_dict(dict(vars(value)), depth)})
        raise Refused("its class %s needs pickle" % kind.__name__)
    return None


class PlainObject:
    pass


def source_of_definition(encoder, value):
    """Returns the name and the text of a function or a class of the code."""
    import inspect
    import textwrap
    name = getattr(value, "__name__", "")
    if "<" in value.__qualname__ or "." in value.__qualname__:
        raise Refused("it was defined inside of another definition, or is a lambda")
    if getattr(value, "__closure__", None):
        raise Refused("it has a closure")
    try:
        text = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise Refused("its source is not known") from None
    return {"name": name, "text": encoder.text(text)}


def set_all(text):
    """Sets the variables of a document."""
    if not isinstance(text, dict) or text.get("version") != VERSION:
        raise ValueError("this is not version %d of a document of variables" % VERSION)
    variables = text.get("variables")
    if not isinstance(variables, dict):
        raise ValueError("the document has no variables")
    decoder = Decoder({"module": decode_module, "source": decode_source, "object": decode_object})
    first, done, left = text.get("first"), [], sorted(variables, key=is_later(variables))
    first = first if isinstance(first, dict) else {}
    while left:  # again, as long as that helps: definitions may need values, and values classes
        failures = {}
        for name in left:
            try:
                if not name.isidentifier() or name[:2] == "__":
                    raise Refused("this is not the name of a variable")
                decoder.begin(first.get(name, 0))
                NAMESPACE[name] = decoder.decode(variables[name])
                done.append(name)
            except Exception as e:
                failures[name] = str(e) if isinstance(e, Refused) else "%s: %s" % (type(e).__name__, e)
        if len(failures) == len(left):
            break
        left = list(failures)
    return {"set": done, "missing": [
        {"name": name[:200], "type": "", "reason": failures[name][:500]} for name in left[:MAX_MISSING]]}


def is_later(variables):
    """Returns the key that sorts modules first."""
    return lambda name: not (isinstance(variables[name], dict) and "$module" in variables[name])


def decode_module(decoder, name, depth):
    __import__(name)
    return sys.modules[name]


def decode_source(decoder, parts, depth):
    if parts.get("language", "python") != "python":
        raise Refused("its source is not of Python")
    if not isinstance(parts.get("text", ""), str):  # it would be kept for tracebacks
        raise Refused("its source is not text")
    if "from" in parts:
        return getattr(decode_module(decoder, parts["from"], depth), parts["name"])
    global runs
    runs += 1
    name = "<cell %d>" % runs  # so that tracebacks, and the next export, find the text
    remember(parts["text"], name)
    exec(compile(parts["text"], name, "exec", flags, True), NAMESPACE)
    return NAMESPACE[parts["name"]]


def decode_object(decoder, parts, depth):
    kind = NAMESPACE[parts["class"]]
    if not isinstance(kind, type) or kind.__module__ != "__main__":
        raise Refused("%s is not a class of the code" % parts["class"])

    def fill(out):
        vars(out).update(decoder.decode(parts["state"], depth))

    return decoder.fill(object.__new__(kind), fill)
