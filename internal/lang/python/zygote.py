"""Makes of an interpreter that is just about to begin with its program a zygote: it waits here, and each process forked from it goes on.

Python imports this in the place of sitecustomize, the last thing that it does before the program but for usercustomize. So a fork
finds everything as it is where the interpreter was started for it alone: no frame, module or path of ours is left once it goes on.

Orders come on descriptor 3: three little-endian uint32 (the namespaces to join, 1 where a control group to be born in is among the
descriptors, how many files of control groups to write "0" to), and with them the descriptors: a pidfd of the sandbox's first process,
a channel, stdout, stderr, and those of the control groups. The zygote forks a process into the pid namespace of the sandbox. That one
joins the others and forks again, so that its child is left to the sandbox's first process. What this child is to do to itself, and for
whom it goes on, it reads from the channel; the zygote itself never sees it, and nor does any other fork.
"""
import sys

before = set(sys.modules)
import ctypes  # after it was seen what is there


def serve():
    import _socket as socket  # without the layer above it, which is a quarter of what a fork would copy
    import atexit
    import gc
    import os
    import struct
    import time

    CLONE_NEWUSER, CLONE_NEWPID, CLONE_INTO_CGROUP, SIGCHLD = 0x10000000, 0x20000000, 0x200000000, 17
    NUMBERS = {"x86_64": (56, 435, 436), "aarch64": (220, 435, 436)}
    clone, clone3, close_range = NUMBERS[os.uname().machine]
    libc = ctypes.PyDLL(None, use_errno=True)  # one thread: there is no lock to give up
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = [ctypes.c_long] * 7

    def must(step, number, *args):
        result = syscall(number, *args, *[0] * (6 - len(args)))
        if result < 0:
            raise OSError(ctypes.get_errno(), step)
        return result

    def join(pidfd, namespaces):
        if libc.setns(pidfd, namespaces) < 0:
            raise OSError(ctypes.get_errno(), "join namespaces")

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

    def refuse(channel, failure):
        """Answers with what failed, in words for the host, where a process id would be."""
        text = str(failure).encode()[:200]
        os.write(channel, struct.pack("<2I", 0, len(text)) + text)

    def become(channel, stdout, stderr):
        """Makes this process the sandbox's, and returns once its program is to begin."""
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        must("close descriptors", close_range, 3, channel - 1, 0)
        must("close descriptors", close_range, channel + 1, 0x7FFFFFFF, 0)
        channel = socket.socket(fileno=channel)
        carry_out(channel)
        args, env = struct.unpack("<2I", read(channel, 8))
        args, env = (bytes(read(channel, n)).split(b"\0")[:-1] for n in (args, env))
        sys.argv += map(os.fsdecode, args)
        sys.orig_argv += map(os.fsdecode, args)
        for entry in env:
            name, _, value = entry.partition(b"=")
            os.environb[name] = value
        while os.getppid() != 1:  # which adopts its own children only; who forked us has nothing left to do but end
            time.sleep(0.0002)
        channel.sendall(struct.pack("<I", os.getpid()))
        if channel.recv(1) != b"!":
            os._exit(1)
        channel.close()

    def enter(namespaces, tasks, pidfd, channel, stdout, stderr):
        """Joins the sandbox, and returns in a process that its first one is the parent of, ready to begin with the program."""
        try:
            for task in tasks:
                os.write(task, b"0")
            join(pidfd, CLONE_NEWUSER)  # in which it then has the capabilities to join the others
            join(pidfd, namespaces)
            if os.fork():
                os._exit(0)
            become(channel, stdout, stderr)
        except BaseException as failure:
            try:
                refuse(channel, failure)
            finally:
                os._exit(1)  # whatever else happens, it does not go on

    def drop(fds):
        for fd in fds:
            os.close(fd)

    keep = ctypes.pythonapi.Py_IncRef  # for good: what is kept is not taken apart at the end, which would touch all of its pages

    def spare(modules, names):
        """Takes away the modules that the interpreter started with. It is the last to be called before modules are taken apart."""
        for name in names:
            modules.pop(name, None)

    kept = [name for name in before if name not in ("__main__", "builtins", "sys")]
    for name in kept:
        keep(ctypes.py_object(sys.modules[name]))
    atexit.register(spare, sys.modules, kept)

    gate = socket.socket(fileno=3)
    gate.setblocking(True)
    room = socket.CMSG_LEN(16 * 4)
    os.environ.clear()
    # The collector's marks are written into every object; frozen ones are left alone, in this process's pages, by all forks.
    gc.collect()
    gc.freeze()
    gc.disable()
    gate.sendall(b"!")
    while True:
        order, rights, _, _ = gate.recvmsg(12, room, socket.MSG_CMSG_CLOEXEC)
        if len(order) != 12:
            os._exit(0)  # the server is gone
        fds = [fd for _, _, data in rights for (fd,) in struct.iter_unpack("i", data)]
        namespaces, grouped, tasks = struct.unpack("<3I", order)
        pidfd, channel, stdout, stderr, *groups = fds
        try:
            join(pidfd, CLONE_NEWPID)
        except OSError as failure:  # the sandbox has ended
            refuse(channel, failure)
            drop(fds)
            continue
        if grouped:
            request = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, groups[0])
            child = must("fork", clone3, ctypes.addressof(request), ctypes.sizeof(request))
        else:
            child = must("fork", clone, SIGCHLD)
        if child == 0:
            enter(namespaces, groups[grouped:], pidfd, channel, stdout, stderr)
            gate.detach()  # closed long ago, with all others
            gc.enable()
            return
        drop(fds)
        os.waitpid(child, 0)


try:
    serve()
except BaseException as failure:
    import os

    # Never as if it were done: the interpreter would go on, and the program run where the zygote is.
    os.write(2, ("the zygote: %r" % failure).encode())
    os._exit(1)
folder = __file__.rpartition("/")[0]
sys.path.remove(folder)
sys.path_importer_cache.pop(folder, None)
for name in set(sys.modules) - before:
    if name != __name__:
        # Kept for good, as it is not worth to be taken apart now.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules.pop(name)))
del sys.modules[__name__]
import sitecustomize  # that of the root, where it has one; what fails now fails as if it alone had been imported
