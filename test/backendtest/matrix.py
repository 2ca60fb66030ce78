"""Queries the seccomp filter's answer to each call of vectors.txt, without making the calls.

A second filter applies to this thread only, and only to calls from one place in memory. It passes calls that the
sandbox's filter allows to another thread of this program, which answers ALLOWED for the kernel
(SECCOMP_RET_USER_NOTIF, Linux 5.0). On kernels without that, it passes them to a tracer that does not exist, so the
kernel answers ENOSYS (SECCOMP_RET_TRACE). Calls that the sandbox's filter refuses keep its answer: of two filters the
stricter one wins (seccomp(2)). A line that begins with ! must be refused with ENOSYS; where that looks like an
allowed call, the call is made. Prints the way, the result of a call by the interrupt of 32-bit programs, and each
call's errno.
"""
import ctypes
import mmap
import os
import struct
import sys
import threading

ALLOWED = 133  # EHWPOISON, which no call of these answers
RET_USER_NOTIF, RET_TRACE, RET_ALLOW = 0x7FC00000, 0x7FF00000, 0x7FFF0000
SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER = 317, 1, 8
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101

if os.uname().machine != "x86_64":
    raise SystemExit("this needs x86_64")
libc = ctypes.CDLL(None, use_errno=True)

# long call(long *words): the number and six arguments into their registers, then syscall; behind it, a call of getpid
# by int 0x80.
call_code = bytes.fromhex("4989fb 498b03 498b7b08 498b7310 498b5318 4d8b5320 4d8b4328 4d8b4b30 0f05 c3")
foreign_code = bytes.fromhex("b814000000 cd80 c3")
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(call_code + foreign_code)
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(base)
foreign = ctypes.CFUNCTYPE(ctypes.c_long)(base + len(call_code))
place = base + len(call_code) - 1  # the instruction after the call, which is what the kernel tells filters


def install(verdict, flags):
    """Puts the filter on this thread: the verdict for calls from the place, and all others allowed."""
    code = [(0x20, 0, 0, 8), (0x15, 0, 3, place & 0xFFFFFFFF), (0x20, 0, 0, 12), (0x15, 0, 1, place >> 32),
        (0x06, 0, 0, verdict), (0x06, 0, 0, RET_ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(SYS_SECCOMP), ctypes.c_long(SET_MODE_FILTER), ctypes.c_long(flags), head)
    return value if value >= 0 else -ctypes.get_errno()


def answer(listening, listener):
    """Answers every call that was allowed."""
    listening.wait()
    note = ctypes.create_string_buffer(80)
    while True:
        ctypes.memset(note, 0, 80)
        if libc.ioctl(listener[0], ctypes.c_ulong(NOTIF_RECV), note) == 0:
            reply = ctypes.create_string_buffer(struct.pack("QqiI", struct.unpack_from("Q", note)[0], 0, -ALLOWED, 0))
            libc.ioctl(listener[0], ctypes.c_ulong(NOTIF_SEND), reply)


def aside(what):
    """Returns what a child of this process got for an answer, or the signal that ended it."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(theirs, str(what()).encode())
        os._exit(0)
    os.close(theirs)
    answer = os.read(ours, 1 << 16).decode()
    os.close(ours)
    ended = os.waitpid(pid, 0)[1]
    return "signal %d" % os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else "answer " + answer


def made():
    """The calls that are to be refused with ENOSYS, and were answered otherwise when they were made."""
    others = []
    for i, vector in enumerate(vectors):
        if i in absent:
            words[:] = vector
            errno = -call(words)
            if errno != 38:
                others.append("%d:%d" % (i, errno))
    return " ".join(others) or "none"


with open("vectors.txt") as f:
    text = f.readlines()
absent = {i for i, line in enumerate(text) if line.startswith("!")}
vectors = [[int(w, 16) for w in line.lstrip("!").split()] for line in text]
words = (ctypes.c_ulong * 7)()
lines = ["foreign " + aside(foreign)]
listening, listener = threading.Event(), []
threading.Thread(target=answer, args=(listening, listener), daemon=True).start()
listener.append(install(RET_USER_NOTIF, NEW_LISTENER))
way = "notified"
if listener[0] < 0:
    way = "traced"
    lines.append("made " + aside(made))
    failed = install(RET_TRACE, 0)
    if failed < 0:
        raise SystemExit("no filter: %d, %d" % (listener[0], failed))
else:
    listening.set()
lines.append("way " + way)
for vector in vectors:
    words[:] = vector
    lines.append("errno %d" % -call(words))
sys.stdout.write("\n".join(lines) + "\nEND\n")
sys.stdout.flush()
os._exit(0)
