# Calls tools: functions of the client. Package driver specifies the protocol.
import json
import select
from keyword import iskeyword

MAX_ARGUMENTS = 1 << 20  # bytes, as in package toolcall
POLL = 0.05  # seconds between checks of a thread whether its run has ended
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}
GONE = (b"0", b"the run of this call has ended")

calls = {}  # in progress, by id: a lock and the answer
reader = thread.allocate_lock()  # held by the thread that reads answers
calls_made = 0  # calls so far
ending_run = None  # the run that ends


class ToolError(Exception):
    """A tool of the client failed."""


ToolError.__module__ = "builtins"


class Missing:
    """The value of a parameter without an argument."""

    def __repr__(self):
        return "..."


MISSING = Missing()


def define_tools(text):
    """Defines a function for each tool."""
    builtins.ToolError = ToolError
    for tool in json.loads(text):
        NAMESPACE[tool["name"]] = stub(tool["name"], tool["description"], tool["schema"])


def stub(name, description, schema):
    """Returns a function with the parameters of a schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required") if properties else None
    required = [word for word in required or () if word in properties]
    words = required + [word for word in properties if word not in required]
    if words and all(word.isidentifier() and not iskeyword(word) and word[:2] != "__" for word in words):
        signature = ", ".join(parameter(word, properties[word], word in required) for word in words)
        arguments = "{%s}" % ", ".join("%r: %s" % (word, word) for word in words)
    else:
        signature = arguments = "arguments"
        signature = "**" + signature
    names = {"__call__": lambda arguments: call(name, arguments), "__missing__": MISSING, "__builtins__": {},
            "__name__": "__main__"}
    source = "def function(%s):\n return __call__(%s)" % (signature, arguments)
    exec(compile(source, FILE, "exec"), names)
    function = names["function"]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = description or None
    function.__annotations__ = {word: kind(properties[word]) for word in words if kind(properties[word])}
    return function


def parameter(word, schema, required):
    return word if required else word + "=__missing__"


def kind(schema):
    """Returns the type of a property, or None."""
    name = schema.get("type") if isinstance(schema, dict) else None
    name = TYPES.get(name) if isinstance(name, str) else None
    return vars(builtins).get(name) if name else None


def plain(value):
    """Returns numbers and arrays of numpy, and the like, as plain values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("an argument of a tool must be JSON: %s is not" % type(value).__name__)


def call(name, arguments):
    """Calls a tool and waits for its answer."""
    global calls_made
    if posix.getpid() != PID:
        raise RuntimeError("a tool cannot be called in another process")
    arguments = {word: value for word, value in arguments.items() if value is not MISSING}
    data = json.dumps(arguments, default=plain, allow_nan=False).encode()
    if len(data) > MAX_ARGUMENTS:
        raise ValueError("the arguments of a tool have at most %d bytes" % MAX_ARGUMENTS)
    if is_late() or ending_run == run_id:
        raise RuntimeError("the run that called the tool has ended")
    flush(sys.stdout)
    flush(sys.stderr)
    own = [thread.allocate_lock(), None]
    own[0].acquire()
    with writing:
        calls_made += 1
        id = b"%d" % calls_made
        calls[id] = own
        send(b"call", run_id, id, name.encode(), data)
    try:
        await_answer(own)
    finally:
        calls.pop(id, None)
    ok, data = own[1]
    if ok == b"1":
        return json.loads(data)
    raise ToolError(data.decode("utf-8", "replace"))


def await_answer(own):
    """Waits for an answer. One of the threads that wait reads all answers."""
    while own[1] is None:
        if not reader.acquire(False):
            own[0].acquire(True, POLL)
            continue
        try:
            while own[1] is None:
                read_answer()
        finally:
            reader.release()
            for other in list(calls.values()):
                wake(other)


def read_answer():
    """Reads one answer, and wakes the thread that waits for it."""
    global request
    if thread.get_ident() != MAIN and not any(inbox) and not select.select([incoming], [], [], POLL)[0]:
        return
    receive()
    if request is None:  # the engine has ended
        posix._exit(1)
    (kind, fields), request = request, None
    own = calls.get(fields[0]) if kind == b"answer" else None
    if own is not None:
        own[1] = fields[1:]
        wake(own)


def wake(own):
    try:
        own[0].release()
    except RuntimeError:  # it is awake
        pass


def end_calls():
    """Ends the calls of threads that outlive their run: only the driver reads requests between runs."""
    global ending_run
    ending_run = run_id
    for own in list(calls.values()):
        if own[1] is None:
            own[1] = GONE
        wake(own)
    with reader:
        pass
