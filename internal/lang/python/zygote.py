"""Turns an interpreter into a zygote just before its program starts: it waits here, and each of its forks continues.

Python imports this file instead of sitecustomize, the last step before the program except usercustomize. So a fork
finds the same state as in a new interpreter: no frame, module or path of the zygote remains.

Requests arrive on descriptor 3: three little-endian uint32 (the namespaces to join; 1 if a control group for the
start is among the descriptors; the number of control group files to write "0" to), together with the descriptors: a
pidfd of the first process of the sandbox, a channel, stdout, stderr, and those of the control groups. The zygote
forks a child into the pid namespace of the sandbox. The child joins the other namespaces and leaves a fork of the
zygote there, as a child of the first process of the sandbox. This fork reads from the channel how to confine itself
and which program to run. Neither the zygote nor any other fork sees that.

The child in between is the machine code beside this file (package fork, Entrance).
"""
import sys

before, folders = set(sys.modules), set(sys.path_importer_cache)
import ctypes  # after listing the loaded modules


def serve():
    """Returns only in forks: where sys.path has the entries of PYTHONPATH."""
    import _socket as socket  # without the module socket, a fork copies a quarter less
    import atexit
    import gc
    import os
    import struct
    import time

    CLONE_NEWUSER, CLONE_NEWPID, CLONE_INTO_CGROUP, SIGCHLD = 0x10000000, 0x20000000, 0x200000000, 17
    ENTERED = 0xFFFFFFFF  # higher than any process id
    VFORK = 0x4100  # CLONE_VM and CLONE_VFORK
    NUMBERS = {"x86_64": (56, 1, 308, 9, 10, 435, 436), "aarch64": (220, 64, 268, 222, 226, 435, 436)}
    clone, write, setns, mmap, mprotect, clone3, close_range = NUMBERS[os.uname().machine]
    libc = ctypes.PyDLL(None, use_errno=True)  # one thread: no lock to release
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = [ctypes.c_long] * 7

    def must(step, number, *args):
        result = syscall(number, *args, *[0] * (6 - len(args)))
        if result < 0:
            raise OSError(ctypes.get_errno(), step)
        return result

    def read(channel, size):
        data = bytearray(size)
        view = memoryview(data)
        while view:
            n = channel.recv_into(view)
            if n == 0:
                os._exit(1)
            view = view[n:]
        return data

    def carry_out(channel):
        """Makes the calls of package confine (AppendCalls)."""
        count, pointers, size = struct.unpack("<3I", read(channel, 12))
        calls, pointers, data = read(channel, 64 * count), read(channel, 8 * pointers), read(channel, size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(data)) if data else 0
        for where, to in struct.iter_unpack("<2I", pointers):
            struct.pack_into("<Q", data, where, base + to)
        kept = skip = 0
        for number, a, b, c, d, e, f, meta in struct.iter_unpack("<8q", calls):
            if skip:
                skip -= 1
                continue
            if meta:
                args = [a, b, c, d, e, f]
                for i in range(6):
                    if meta >> i & 1:
                        args[i] += base
                    elif meta >> 6 + i & 1:
                        args[i] = kept
                a, b, c, d, e, f = args
            result = syscall(number, a, b, c, d, e, f)
            if result < 0:
                failure = ctypes.get_errno()
                if failure != meta >> 16 & 0xFFFF:
                    raise OSError(failure, "system call %d" % number)
                skip = meta >> 32 & 0xFFFF
            elif meta >> 12 & 1:
                kept = result

    def refuse(channel, failure, entered):
        """Reports a failure to the host, after 0, or ENTERED if a process may have entered the sandbox. The host may
        have ended in the meantime."""
        text = str(failure).encode()[:200]
        try:
            os.write(channel, struct.pack("<2I", ENTERED if entered else 0, len(text)) + text)
        except OSError:
            pass

    def given_up(channel):
        """Reports whether the requester has gone. Then a program of the user may run, and nothing may enter."""
        poll = (ctypes.c_int * 2)(channel, 0)  # struct pollfd; POLLHUP needs no request
        return libc.poll(poll, 1, 0) != 0

    def become(channel, stdout, stderr):
        """Moves this process into the sandbox, and returns when its program may start."""
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        must("close descriptors", close_range, 3, channel - 1, 0)
        must("close descriptors", close_range, channel + 1, 0x7FFFFFFF, 0)
        channel = socket.socket(fileno=channel)
        carry_out(channel)
        while os.getppid() != 1:  # pid 1 adopts only its own children; our parent is about to end
            time.sleep(0.0002)
        channel.sendall(struct.pack("<I", os.getpid()))
        # The program may come much later. Until then, nothing has run in the sandbox.
        receive(lambda size: read(channel, size))
        channel.close()

    def load(file):
        """Returns a function from machine code."""
        with open(file, "rb") as f:
            code = f.read()
        page = must("mmap", mmap, 0, len(code), 3, 0x22, -1, 0)  # private, readable and writable
        ctypes.memmove(page, code, len(code))
        must("mprotect", mprotect, page, len(code), 5)  # now readable and executable
        return ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(page)

    def enter(namespaces, grouped, pidfd, groups):
        """Forks into the sandbox: returns 0 there, and here the id of the intermediate child."""
        if grouped:
            request = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP | VFORK, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, groups[0])
            rows = [clone3, ctypes.addressof(request), ctypes.sizeof(request), 0]
        else:
            rows = [clone, VFORK | SIGCHLD, 0, 0]
        for task in groups[grouped:]:
            rows += [write, task, ctypes.addressof(zero), 1]
        rows += [setns, pidfd, CLONE_NEWUSER, 0]  # gives the capabilities to join the others
        rows += [setns, pidfd, namespaces, 0]
        rows += [-1, fork, 0, 0]
        rows = (ctypes.c_int64 * len(rows))(*rows)
        ctypes.pythonapi.PyOS_BeforeFork()
        child = entrance(ctypes.addressof(rows))
        if child == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Parent()
        if child < 0:
            raise OSError(-child, "fork")
        return child

    def begin(channel, stdout, stderr):
        """Returns in a fork when its program may start, with nothing left of the zygote."""
        try:
            become(channel, stdout, stderr)
        except BaseException as failure:
            try:
                refuse(channel, failure, True)
            finally:
                os._exit(1)  # never continue

    keep = ctypes.pythonapi.Py_IncRef  # forever: freeing these at the end would touch all their pages

    def spare(modules, names):
        """Removes the modules that the interpreter started with. It is the last call before modules are freed."""
        for name in names:
            modules.pop(name, None)
        arm()

    kept = [name for name in before if name not in ("__main__", "builtins", "sys")]
    for name in kept:
        keep(ctypes.py_object(sys.modules[name]))
    try:
        arm = early_end()
    except Exception:  # another C library or interpreter; the end then takes longer
        arm = int
    atexit.register(spare, sys.modules, kept)

    entrance = load(folder + "/enter")
    fork = ctypes.cast(libc._Fork if hasattr(libc, "_Fork") else libc.fork, ctypes.c_void_p).value
    zero = ctypes.create_string_buffer(b"0")

    gate = socket.socket(fileno=3)
    gate.setblocking(True)
    room = socket.CMSG_LEN(16 * 4)
    os.environ.clear()
    # Once here and not in each fork: it touches pages that forks then copy.
    at = sys.path.index(folder)  # of the entries of the program's PYTHONPATH
    del sys.path[at]
    for name in set(sys.path_importer_cache) - folders | {folder}:
        sys.path_importer_cache.pop(name, None)
    for name in set(sys.modules) - before:
        if name != __name__:
            keep(ctypes.py_object(sys.modules.pop(name)))  # not worth freeing
    # The collector writes marks into every object. Frozen objects stay unmarked, so forks share their pages.
    gc.collect()
    gc.freeze()
    gc.disable()
    # The end of a program frees their cycles with functions.
    for thing in sys.modules["__main__"], sys.modules["__main__"].__dict__:
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(thing))
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(thing))
    gate.sendall(b"!")
    while True:
        order, rights, _, _ = gate.recvmsg(12, room, socket.MSG_CMSG_CLOEXEC)
        if len(order) != 12:
            os._exit(0)  # the server has ended
        fds = [fd for _, _, data in rights for (fd,) in struct.iter_unpack("i", data)]
        namespaces, grouped, tasks = struct.unpack("<3I", order)
        pidfd, channel, stdout, stderr, *groups = fds
        try:
            if len(groups) != grouped + tasks:
                raise OSError("not all descriptors came")  # without its control groups, it would have no limits
            if given_up(channel):
                raise OSError("nobody waits")
            if libc.setns(pidfd, CLONE_NEWPID) < 0:
                raise OSError(ctypes.get_errno(), "join pid namespace")  # the sandbox has ended
            child = enter(namespaces, grouped, pidfd, groups)
            if child == 0:
                begin(channel, stdout, stderr)
                gate.detach()  # already closed, with all others
                gc.enable()
                return at
            _, status = os.waitpid(child, 0)
            if status:
                raise OSError(os.waitstatus_to_exitcode(status), "enter sandbox")
        except OSError as failure:
            # Killed, it may have forked before; its own failures come before the fork.
            refuse(channel, failure, (failure.errno or 0) < 0)
        for fd in fds:
            os.close(fd)
