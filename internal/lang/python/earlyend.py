def early_end():
    """Returns a function for the last atexit call. After it the interpreter may end without freeing its objects, which
    writes to most pages of a fork and takes 2 ms.

    Before it frees them, Py_FinalizeEx has done everything that a program can notice: called atexit, flushed the
    streams, cleared the modules. Then it clears the dictionary of the thread. A capsule there returns from
    Py_FinalizeEx to its caller, which knows the exit code: the unwinder finds the caller's registers, and setcontext
    restores them.

    The capsule does so only if freeing the rest would run no code: no __del__, no callback of a weak reference, no
    extension module that is not listed here. Nothing here causes an audit event for a program's hook. Most of it runs
    when builtins are gone, or a program's own, so it uses only its own variables.
    """
    import gc
    import _thread
    import os
    from _io import FileIO, TextIOWrapper
    from _weakref import CallableProxyType, ProxyType, ref

    if sys.version_info[:2] != (3, 11) or os.uname().machine != "x86_64":
        return int  # does nothing; not tested
    POINTER, WORD = ctypes.c_void_p, ctypes.c_uint64
    api, libc, unwinder = ctypes.pythonapi, ctypes.PyDLL(None), ctypes.PyDLL("libgcc_s.so.1")
    register, stack, address, function = (
        getattr(unwinder, "_Unwind_" + name) for name in ("GetGR", "GetCFA", "GetIP", "FindEnclosingFunction"))
    for f, *args in (register, POINTER, ctypes.c_int), (stack, POINTER), (address, POINTER), (function, POINTER):
        f.argtypes, f.restype = args, WORD
    backtrace, getcontext, setcontext = unwinder._Unwind_Backtrace, libc.getcontext, libc.setcontext
    registers = (WORD * 128)()  # ucontext_t
    context = ctypes.byref(registers)
    SAVED = (9, 12), (10, 13), (11, 14), (12, 15), (15, 6), (16, 3)  # registers that calls keep: here, and in DWARF
    SP, PC, CONTINUE, STOP = 20, 21, 0, 4
    finalize = ctypes.cast(api.Py_FinalizeEx, POINTER).value
    armed = found = False

    def visit(frame, _):
        nonlocal found
        try:
            if found:
                for i, number in SAVED:
                    registers[i] = register(frame, number)
                registers[SP], registers[PC] = stack(frame), address(frame)
                return STOP
            found = function(address(frame)) == finalize
            return CONTINUE
        except:
            found = False
            return STOP

    visitor = ctypes.PYFUNCTYPE(ctypes.c_int, POINTER, POINTER)(visit)

    def hooks():
        """Returns the interpreter's pointer to the list of its audit hooks."""
        api.PyInterpreterState_Get.restype = POINTER
        state = api.PyInterpreterState_Get()
        words = (WORD * 2048).from_address(state)
        without = list(words)
        sys.addaudithook(lambda *_: None)
        (i,) = (i for i, word in enumerate(words) if word and not without[i])
        ctypes.cast(words[i], ctypes.py_object).value.clear()
        words[i] = 0
        return WORD.from_address(state + 8 * i)

    audited = hooks()

    class Library(ctypes.Structure):
        """The linker's struct link_map."""

    library = ctypes.POINTER(Library)
    Library._fields_ = ("base", WORD), ("name", ctypes.c_char_p), ("dynamic", POINTER), ("next", library)
    last = Library.from_address(libc._handle)
    system = extensions = b""
    while last.next:
        last = last.next.contents
        if b"/libc.so" in last.name:
            system = last.name.rpartition(b"/")[0]
        if b"/_ctypes." in last.name:
            extensions = last.name.rpartition(b"/")[0]
    EXTENSIONS = b"""_asyncio _bisect _blake2 _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr
        _codecs_tw _contextvars _csv _datetime _decimal _elementtree _hashlib _heapq _json _lzma _md5 _multibytecodec
        _multiprocessing _opcode _pickle _posixshmem _posixsubprocess _queue _random _sha1 _sha2 _sha256 _sha3 _sha512
        _socket _ssl _statistics _struct _typing _uuid _zoneinfo array binascii cmath fcntl grp math mmap pyexpat
        resource select syslog termios unicodedata zlib""".split()
    LIBRARIES = b"libbz2 libcrypto liblzma libmpdec libssl libuuid libz".split()

    def listed():
        """Reports whether all loaded libraries are known."""
        one = last.next
        while one:
            one = one.contents
            where, _, file = one.name.rpartition(b"/")
            name = file.partition(b".")[0]
            if not (where == extensions and name in EXTENSIONS or where == system and name in LIBRARIES):
                return False
            one = one.next
        return True

    def unbuffered():
        """Flushes the streams. Reports whether they are ordinary, so that flushing them again cannot fail."""
        for stream, original in ("stdout", "__stdout__"), ("stderr", "__stderr__"):
            text = names[stream]
            if text is not names[original] or kind(text) is not TextIOWrapper or [*text.__dict__] != ["mode"]:
                return False
            raw = text.buffer
            if not text.write_through or kind(raw) is not FileIO or [*raw.__dict__] != ["name"]:
                return False
            text.flush()
        return True

    streams = ref(sys.stdout), ref(sys.stderr)
    trace, profile = sys.gettrace, sys.getprofile
    threads, process = _thread._count, os.getpid
    objects, count, kind, identity = gc.get_objects, len, type, id
    mro, contents = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__"))
    callback = ref.__dict__["__callback__"].__get__
    names, modules = sys.__dict__, sys.modules
    TYPE, BUILTIN, FUNCTION, INERT, WEAK, CLASS, ACTIVE, MOST = type, type(len), type(hooks), 0, 1, 2, 3, 5000
    COLLECTIONS = [(os.__file__.replace("os.py", file), name) for file, name in (
        ("_weakrefset.py", "_remove"), ("weakref.py", "remove"), ("logging/__init__.py", "_removeHandlerRef"))]

    def nature(t):
        """Returns whether freeing an object of a type may run code."""
        result = INERT
        for c in mro(t):
            if "__del__" in contents(c) or c is ProxyType or c is CallableProxyType:
                return ACTIVE
            if c is ref:
                result = WEAK
            elif c is TYPE:
                result = CLASS
        return result

    def called(back):
        """Reports whether a callback may do more than drop an entry of a collection."""
        if kind(back) is FUNCTION:
            return (back.__code__.co_filename, back.__code__.co_name) not in COLLECTIONS
        return back is not None and (kind(back) is not BUILTIN or kind(back.__self__) is not ref)  # not that of _abc

    def inert(left):
        """Reports whether freeing these objects runs no code. No code of theirs runs here either."""
        if count(left) > MOST:
            return False
        natures = {}
        for o in left:
            t = kind(o)
            is_a = natures.get(identity(t))
            if is_a is None:
                is_a = natures[identity(t)] = nature(t)
            if is_a == ACTIVE or is_a == WEAK and called(callback(o)) or is_a == CLASS and nature(o) == ACTIVE:
                return False
        return True

    def arm():
        nonlocal armed
        try:
            watched = trace() is not None or profile() is not None
            if not watched and threads() == 0 and "_ctypes" not in modules and listed() and unbuffered():
                armed = process()
        except:
            pass  # the ordinary end reports it

    def leave(_):
        nonlocal found
        try:
            if armed != process() or audited.value:
                return
            for stream in streams:
                text = stream()
                if text is not None and not text.write_through:
                    return
            if inert(objects()):
                getcontext(context)
                found = False
                backtrace(visitor, None)
                if found:
                    setcontext(context)
        except:
            pass  # the ordinary end follows

    leaver = ctypes.PYFUNCTYPE(None, POINTER)(leave)
    api.PyThreadState_GetDict.restype = POINTER
    state = ctypes.cast(api.PyThreadState_GetDict(), ctypes.py_object).value
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [POINTER] * 3
    state["fumehood"] = api.PyCapsule_New(ctypes.addressof(registers), None, ctypes.cast(leaver, POINTER))
    for thing in leaver, visitor:
        api.Py_IncRef(ctypes.py_object(thing))
    backtrace(visitor, None)  # the first use initializes it
    return arm
