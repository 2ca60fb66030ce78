"""Prints what a program sees of its isolation, one fact per line, and waits for its end.

It looks before it changes anything: only the interpreter's own start has changed what the guest left (it ignores
SIGPIPE and SIGXFSZ, and catches SIGINT). Values that differ in every run (process ids, inodes) are left out or named.
"""
import os
import re

if os.getuid() == 0 or not os.path.isdir("/workspace"):
    raise SystemExit("this makes files wherever it can: it is for the inside of a sandbox")
fds = sorted(os.listdir("/proc/self/fd"), key=int)

import ctypes
import errno
import fcntl
import resource
import signal
import socket
import stat
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
lines = []
me = os.getpid()


def say(*words):
    lines.append(" ".join(str(w) for w in words))


def attempt(what):
    """Returns a value, or the name of the error that there was instead."""
    try:
        return what()
    except OSError as e:
        return errno.errorcode.get(e.errno, e.errno)


def text(path):
    with open(path, "rb") as f:
        return f.read(1 << 20).decode("utf-8", "backslashreplace")


def call(function, *args):
    ctypes.set_errno(0)
    value = function(*args)
    return value if value >= 0 else errno.errorcode[ctypes.get_errno()]


def mode(s):
    return "%s %d:%d" % (stat.filemode(s.st_mode), s.st_uid, s.st_gid)


def status_of(path):
    """The lines of a status file that say who a thread is and what it may do."""
    fields = dict(line.split(":", 1) for line in text(path).splitlines())
    names = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
        "Seccomp_filters", "TracerPid",
             "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
    # Signals 32 to 34 are the C library's own. Whether the guest ignores them it has from whoever started its engine,
    # and nobody from it.
    if "SigIgn" in fields:
        fields["SigIgn"] = "%016x" % (int(fields["SigIgn"], 16) & ~(7 << 31))
    return ", ".join(n + " " + " ".join(fields[n].split()) for n in names if n in fields)


def own_status():
    """The same as this thread's own system calls say it."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    caps = call(libc.capget, header,
        data) or "effective %x permitted %x inheritable %x" % tuple(data[i] | data[i + 3] << 32 for i in range(3))
    prctl = {n: call(libc.prctl, c, 0, 0, 0, 0) for n,
        c in (("no_new_privs", 39), ("seccomp", 21), ("dumpable", 3), ("keepcaps", 7), ("securebits", 27),
        ("timerslack", 30))}
    bounding = sum(1 << n for n in range(64) if call(libc.prctl, 23, n, 0, 0, 0) == 1)
    ambient = sum(1 << n for n in range(64) if call(libc.prctl, 47, 1, n, 0, 0) == 1)
    return "%s, bounding %x ambient %x, %s, ids %s %s %s" % (caps, bounding, ambient,
        " ".join("%s %s" % kv for kv in prctl.items()),
                                                           os.getresuid(), os.getresgid(), os.getgroups())


# The process.
say("argv", sys.argv[1:], os.path.basename(os.readlink("/proc/self/exe")).startswith("python"))
say("cwd", os.getcwd())
mask = os.umask(0)
os.umask(mask)
say("umask", oct(mask))
for kv in sorted(os.environ.items()):
    say("environment", "=".join(kv) if kv[0] != "FUMEHOOD_EXECUTION" else kv[0])
for kv in sorted(filter(None, text("/proc/self/environ").split("\0"))):
    say("environment of the kernel", kv if not kv.startswith("FUMEHOOD_EXECUTION") else "FUMEHOOD_EXECUTION")
for fd in map(int, fds):
    if attempt(lambda: fcntl.fcntl(fd, fcntl.F_GETFD)) == "EBADF":
        continue  # that of the folder in which they were read
    say("descriptor", fd, os.readlink("/proc/self/fd/%d" % fd).partition("[")[0], mode(os.fstat(fd)), "flags",
        oct(fcntl.fcntl(fd, fcntl.F_GETFL)),
        "inherited", not fcntl.fcntl(fd, fcntl.F_GETFD), "tty", os.isatty(fd))
for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_OFILE"):
    say("limit", name, *attempt(lambda: resource.getrlimit(getattr(resource, name))))
say("session", "leader", os.getsid(0) == me, "group leader", os.getpgrp() == me, "parent", os.getppid(), "terminal",
    attempt(lambda: os.close(os.open("/dev/tty", os.O_RDONLY))))
say("scheduling", os.sched_getscheduler(0), "nice", os.nice(0), "personality", call(libc.personality, 0xFFFFFFFF))
for name in "oom_score_adj", "uid_map", "gid_map", "setgroups", "coredump_filter", "timens_offsets":
    shown = attempt(lambda: " ".join(text("/proc/self/" + name).split()))
    say("own", name, shown if name not in ("uid_map",
        "gid_map") else "; ".join(" ".join((w[0],
        w[2])) for w in (l.split() for l in attempt(lambda: text("/proc/self/" + name)).splitlines()) if len(w) == 3))
pdeath = ctypes.c_int()
call(libc.prctl, 2, ctypes.byref(pdeath), 0, 0, 0)
say("death signal", pdeath.value)
say("pending alarms", signal.getitimer(signal.ITIMER_REAL))

# Every thread, by what /proc says and by what it says itself.
said, up, done = {}, threading.Barrier(4), threading.Event()


def thread():
    said[threading.get_native_id()] = own_status()
    up.wait()
    done.wait()


for _ in range(3):
    threading.Thread(target=thread, daemon=True).start()
said[me] = own_status()
up.wait()
for tid in map(int, os.listdir("/proc/self/task")):
    kind = "main thread" if tid == me else "other thread"
    say(kind, status_of("/proc/self/task/%d/status" % tid))
    say(kind, "says", said.get(tid))
    say(kind, "namespaces", *sorted(n for n in os.listdir("/proc/self/task/%d/ns" % tid)
                                    if os.readlink("/proc/self/task/%d/ns/%s" % (tid,
                                    n)) == os.readlink("/proc/self/ns/" + n)))

# Other processes: the guest, where it is in sight at all.
others = [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != me]
say("other processes in sight", len(others))
for pid in sorted(others):
    name = "process %d" % pid if pid == 1 else "a process"
    for tid in attempt(lambda: os.listdir("/proc/%d/task" % pid)):
        say(name, "thread", attempt(lambda: status_of("/proc/%d/task/%s/status" % (pid, tid))))
    for file in "cmdline", "environ", "limits", "mounts", "maps", "cgroup", "oom_score_adj":
        shown = attempt(lambda: text("/proc/%d/%s" % (pid, file)))
        say(name, file, shown.replace("\0", " ").strip() if file in ("cmdline",
            "oom_score_adj") else shown if shown in errno.errorcode.values() else "%s" % ("content" if shown
            else "nothing"))
    say(name, "descriptors",
        attempt(lambda: [attempt(lambda: os.readlink("/proc/%d/fd/%s" % (pid,
        fd)).partition("[")[0]) for fd in sorted(os.listdir("/proc/%d/fd" % pid), key=int)]))
    for link in "exe", "cwd", "root", "ns/pid", "ns/user", "ns/mnt":
        shown = attempt(lambda: os.readlink("/proc/%d/%s" % (pid, link)))
        say(name, "link", link,
            shown if not link.startswith("ns/") or shown in errno.errorcode.values() else "its own"
            if shown != os.readlink("/proc/self/" + link) else "ours")
say("signal to pid 1", attempt(lambda: os.kill(1, 0)))

# Namespaces, names and groups.
say("namespaces", *sorted(os.listdir("/proc/self/ns")))
uname = os.uname()
say("names", uname.sysname, uname.nodename, attempt(lambda: text("/proc/sys/kernel/domainname").strip()))
say("control groups", *sorted({line.split(":", 2)[2] for line in text("/proc/self/cgroup").splitlines()}))
say("network", attempt(lambda: [name for _, name in socket.if_nameindex()]),
    *sorted(line.split(":")[0].strip() for line in text("/proc/net/dev").splitlines()[2:]))
for name in "passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "host.conf":
    say("etc", name, repr(attempt(lambda: text("/etc/" + name))))

# Mounts. Those of our own making have no source; of others the type and its options are the host's business, as are
# times of access.
for line in text("/proc/self/mountinfo").splitlines():
    before, _, after = line.partition(" - ")
    words, (kind, source, options) = before.split(), (after.split(" ", 2) + [""])[:3]
    if source != "none":
        kind, options, words[3] = "of the host", "", os.path.basename(words[3])
    options = re.sub(r"fdno=\d+", "fdno=N", options)  # they are counted as the mounts are
    options = re.sub(r",inode(64|32)", "", options)  # an option of some kernels
    flags = ",".join(f for f in words[5].split(",") if f not in ("relatime", "noatime"))
    say("mount", words[4], "shows", words[3], flags, " ".join(words[6:]), kind, options)

# Files: what lies in the root, what can be written to, and the devices.
for folder in "/", "/dev", "/run", "/var", "/home", "/etc":
    for name in sorted(attempt(lambda: os.listdir(folder))):
        path = os.path.join(folder, name)
        s = os.lstat(path)
        link = "-> " + os.readlink(path) if stat.S_ISLNK(s.st_mode) and name != "localtime" else ""
        device = "%d:%d" % (os.major(s.st_rdev),
            os.minor(s.st_rdev)) if stat.S_ISCHR(s.st_mode) or stat.S_ISBLK(s.st_mode) else ""
        say("file", path, mode(s), device, link)
for top, folders, files in os.walk("/dev"):
    for name in files:
        path = os.path.join(top, name)
        s = os.lstat(path)
        if stat.S_ISCHR(s.st_mode) or stat.S_ISBLK(s.st_mode):
            say("device", path, "read",
                attempt(lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))),
                "write", attempt(lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))))
for top, folders, files in os.walk("/"):
    if top.startswith(("/proc", "/sys", "/usr")):
        folders[:] = []
    elif os.access(top, os.W_OK):
        made = attempt(lambda: os.close(os.open(os.path.join(top, ".posture"), os.O_CREAT | os.O_WRONLY)))
        say("writable folder", top, mode(os.stat(top)), "may make a file", made)
        if made is None:
            os.unlink(os.path.join(top, ".posture"))

# What /proc and /sys show. A file that is masked, refused or absent shows nothing.
for name in sorted(n for n in os.listdir("/proc") if not n.isdigit()):
    path = "/proc/" + name
    if os.path.islink(path):
        say("proc", name, "->", os.readlink(path).replace(str(me), "PID"))
    elif os.path.isdir(path):
        say("proc", name, "folder", attempt(lambda: "of entries" if os.listdir(path) else "empty"))
    else:
        def look():
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                return "content" if os.read(fd, 1) else "empty"
            finally:
                os.close(fd)
        say("proc", name, attempt(look), "write", attempt(lambda: os.close(os.open(path, os.O_WRONLY))))
writable = []
for base in "/proc/sys", "/sys":
    for top, folders, files in os.walk(base):
        for name in files:
            path = os.path.join(top, name)
            if attempt(lambda: os.close(os.open(path, os.O_WRONLY))) is None:
                writable.append(path)
say("writable in /proc/sys and /sys", *sorted(writable))
say("sys", attempt(lambda: sorted(os.listdir("/sys"))))

sys.stdout.write("".join(line.rstrip() + "\n" for line in lines) + "END\n")
sys.stdout.flush()
time.sleep(600)
