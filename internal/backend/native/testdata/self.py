"""Prints what a program sees of itself and of its interpreter, as one JSON object of names and values.

Two runs of it are compared, so what no two runs have in common is left out.
"""
import sys

seen = {
    "sys.modules": list(sys.modules),
    "globals": sorted(k + "=" + repr(v)[:60].split(" at 0x")[0] for k, v in globals().items()),
    "sys.path": list(sys.path),
    "sys.path_importer_cache": sorted(sys.path_importer_cache),
    "sys.meta_path": [repr(f).split(" at 0x")[0] for f in sys.meta_path],
    "sys.path_hooks": [repr(f).split(" at 0x")[0] for f in sys.path_hooks],
    "frame depth": sys._getframe().f_back is None,
}

import gc
import os

# Before anything else is imported, as imports collect.
seen["gc"] = [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.garbage), len(gc.callbacks)]
seen["gc frozen"] = gc.get_freeze_count()
count = gc.get_count()
seen["gc counts are sane"] = count[0] <= gc.get_threshold()[0] and count[1] <= 20 and count[2] <= 20
seen["time.process_time"] = __import__("time").process_time() < 5
seen["descriptors"] = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]  # but for that of the folder

import _thread
import atexit
import builtins
import ctypes
import fcntl
import json
import locale
import re
import resource
import signal
import site
import stat
import threading
import time


def attempt(name, what):
    """Notes a value, or the error that there was instead."""
    try:
        seen[name] = what()
    except Exception as failure:
        seen[name] = "%s: %s" % (type(failure).__name__, failure)


def text(path):
    with open(path) as f:
        return f.read()


def no_addresses(value):
    return repr(value).split(" at 0x")[0]


def ours(text):
    """Text without the process id, which is 2 or more by chance, and without the host ids that are this sandbox's alone."""
    return re.sub(r"\b(1[89]|2[01])\d{8}\b", "HOST ID", re.sub(r"\b%d\b" % os.getpid(), "PID", text))


# The process.
for line in text("/proc/self/status").splitlines():
    name, _, value = line.partition(":")
    if not name.startswith(("Vm", "Rss", "Huge", "voluntary", "nonvoluntary")):
        seen["status " + name] = ours(" ".join(value.split()))
fields = text("/proc/self/stat").rpartition(")")[2].split()
for index, name in {1: "ppid", 2: "pgrp", 3: "session", 4: "tty", 5: "tpgid", 6: "flags", 15: "priority", 16: "nice", 17: "threads",
                    35: "exit signal", 37: "rt priority", 38: "policy", 49: "exit code"}.items():
    seen["stat " + name] = ours(fields[index])
for name in ("limits", "oom_score_adj", "cgroup", "uid_map", "gid_map", "setgroups", "coredump_filter", "loginuid", "sessionid",
             "comm", "personality", "timerslack_ns", "timens_offsets", "attr/current", "cmdline", "cpuset", "stack"):
    attempt("proc " + name, lambda: text("/proc/self/" + name) if name == "cgroup" else ours(text("/proc/self/" + name)))
attempt("proc environ", lambda: sorted(n.partition("=")[0] for n in text("/proc/self/environ").split("\0")))
for name in ("auxv", "maps", "smaps", "io", "pagemap", "mem", "clear_refs", "mountstats", "net/dev", "task", "map_files"):
    attempt("may open proc " + name, lambda: os.close(os.open("/proc/self/" + name, os.O_RDONLY)))
    attempt("owner of proc " + name, lambda: (lambda s: [s.st_uid, s.st_gid, oct(s.st_mode)])(os.stat("/proc/self/" + name)))
for name in ("exe", "cwd", "root"):
    attempt("link " + name, lambda: os.readlink("/proc/self/" + name))
seen["mounts"] = [ours(" ".join(line.split()[3:])) for line in text("/proc/self/mountinfo").splitlines()]
seen["processes in sight"] = [ours(n) for n in os.listdir("/proc") if n.isdigit()]
seen["namespaces"] = sorted(os.listdir("/proc/self/ns"))
seen["pid namespace of children"] = os.readlink("/proc/self/ns/pid") == os.readlink("/proc/self/ns/pid_for_children")
seen["ids"] = [os.getresuid(), os.getresgid(), os.getgroups()]
seen["session"] = [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid()]
seen["cwd"] = os.getcwd()
seen["umask"] = oct(os.umask(0o22))
seen["nice"] = os.nice(0)
seen["scheduler"] = [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, sorted(os.sched_getaffinity(0))]
seen["alarms"] = [signal.alarm(0), signal.getitimer(signal.ITIMER_REAL)]
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        seen["rlimit " + name] = resource.getrlimit(getattr(resource, name))

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *args):
    ctypes.set_errno(0)
    result = function(*args)
    return [result, os.strerror(ctypes.get_errno())] if result < 0 else result


for name, number in {"PDEATHSIG": 2, "DUMPABLE": 3, "KEEPCAPS": 7, "TIMING": 13, "SECCOMP": 21, "TSC": 25, "SECUREBITS": 27,
                     "TIMERSLACK": 30, "MCE_KILL": 34, "CHILD_SUBREAPER": 37, "NO_NEW_PRIVS": 39, "THP_DISABLE": 42,
                     "IO_FLUSHER": 58}.items():
    pointer = name in ("PDEATHSIG", "TSC", "CHILD_SUBREAPER")
    value = ctypes.c_int(0)
    result = call(libc.prctl, number, *([ctypes.byref(value), 0, 0, 0] if pointer else [ctypes.c_ulong(0)] * 4))
    seen["prctl " + name] = [result, value.value]
seen["prctl SPECULATION_CTRL"] = [call(libc.prctl, 52, ctypes.c_ulong(n), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) for n in range(3)]
seen["capabilities that may be had"] = [call(libc.prctl, 23, ctypes.c_ulong(n), 0, 0, 0) for n in range(42)]
seen["session keyring"] = call(libc.syscall, 250, 0, -3, 0)  # KEYCTL_GET_KEYRING_ID
seen["ioprio"] = call(libc.syscall, 251, 1, 0)
seen["personality"] = call(libc.personality, 0xFFFFFFFF)

# Descriptors.
for fd in 0, 1, 2:
    s = os.fstat(fd)
    seen["descriptor %d" % fd] = [oct(s.st_mode), s.st_rdev, s.st_nlink, oct(fcntl.fcntl(fd, fcntl.F_GETFL)), fcntl.fcntl(fd, fcntl.F_GETFD),
                                  fcntl.fcntl(fd, fcntl.F_GETOWN), os.isatty(fd)]
    seen["owner of descriptor %d" % fd] = [s.st_uid, s.st_gid]
    seen["target of descriptor %d" % fd] = os.readlink("/proc/self/fd/%d" % fd).partition("[")[0]
    attempt("open descriptor %d again" % fd, lambda: os.close(os.open("/proc/self/fd/%d" % fd, os.O_RDONLY if fd == 0 else os.O_WRONLY)))
    seen["pipe of descriptor %d" % fd] = fd and fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
for name in "stdin", "stdout", "stderr":
    attempt("open /dev/" + name, lambda: open("/dev/" + name, "r" if name == "stdin" else "w").close())
seen["read stdin"] = sys.stdin.read()
seen["locks"] = call(libc.flock, 0, 2 | 4)

# The interpreter.
for name in ("argv", "orig_argv", "flags", "executable", "_base_executable", "prefix", "base_prefix", "exec_prefix", "warnoptions", "_xoptions",
             "dont_write_bytecode", "pycache_prefix", "platlibdir", "hexversion", "byteorder", "maxsize", "implementation", "stdlib_module_names",
             "builtin_module_names", "float_info", "hash_info", "thread_info", "tracebacklimit", "ps1", "last_type", "gettrace", "getprofile"):
    value = getattr(sys, name, "none")
    seen["sys." + name] = repr(sorted(value) if isinstance(value, frozenset) else value)
for name in ("getrecursionlimit", "getswitchinterval", "getdlopenflags", "getfilesystemencoding", "getfilesystemencodeerrors", "getdefaultencoding",
             "gettrace", "getprofile", "get_asyncgen_hooks", "get_coroutine_origin_tracking_depth", "get_int_max_str_digits", "is_finalizing"):
    if hasattr(sys, name):
        seen["sys." + name + "()"] = repr(getattr(sys, name)())
seen["sys"] = sorted(vars(sys))
seen["builtins"] = sorted(vars(builtins))
for name in "displayhook", "excepthook", "unraisablehook", "breakpointhook":
    seen["sys." + name] = no_addresses(getattr(sys, name))
seen["sys._current_frames"] = len(sys._current_frames())
for name in "stdin", "stdout", "stderr":
    f = getattr(sys, name)
    seen["sys." + name] = [f.name, f.mode, f.encoding, f.errors, f.line_buffering, f.write_through, repr(f.newlines), f.closed,
                           type(f.buffer).__name__, no_addresses(f), f is getattr(sys, "__%s__" % name)]
seen["environment"] = sorted(kv for kv in os.environ.items() if kv[0] != "FUMEHOOD_EXECUTION")
seen["environment of C"] = sorted(n.partition("=")[0] for n in os.popen("env").read().splitlines())
seen["environment of C is that of os"] = all((libc.getenv(k.encode()) != 0) for k in os.environ)
seen["locale"] = [locale.setlocale(getattr(locale, n)) for n in dir(locale) if n.startswith("LC_")]
seen["encodings"] = [locale.getpreferredencoding(), locale.getpreferredencoding(False), locale.getencoding() if hasattr(locale, "getencoding") else ""]
seen["time zone"] = [time.tzname, time.timezone, time.strftime("%z")]
seen["signal handlers"] = {int(n): no_addresses(signal.getsignal(n)) for n in signal.valid_signals()}
seen["signal mask"] = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
seen["pending signals"] = sorted(signal.sigpending())
seen["atexit"] = atexit._ncallbacks()
seen["site"] = [site.PREFIXES, site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE, site.getsitepackages()]
for name in "sitecustomize", "usercustomize":
    seen["module " + name] = getattr(sys.modules.get(name), "__file__", "none")
seen["main"] = [__name__, __file__, __spec__, __doc__, __package__, no_addresses(__loader__)]
seen["threads"] = [threading.active_count(), threading.current_thread() is threading.main_thread(), threading.get_native_id() == os.getpid(),
                   threading.main_thread().native_id == os.getpid(), _thread._count(), threading.main_thread().name, os.listdir("/proc/self/task") == [str(os.getpid())]]
seen["C says the process id"] = [libc.getpid() == os.getpid(), libc.syscall(186) == os.getpid(), libc.gettid() == os.getpid()]
seen["builtin types are one"] = [isinstance([], __import__("collections.abc").abc.Sequence), ctypes.c_int is __import__("ctypes").c_int]
attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
libc.pthread_getattr_default_np(attributes)
libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
seen["stack of a thread"] = size.value


def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n


seen["recursion"] = depth()
seen["time since the start of this process"] = 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK") < 600
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
seen["children used"] = usage.ru_maxrss < 1 << 20
seen["stat kinds"] = stat.S_IFMT(os.stat("/dev/null").st_mode)
print(json.dumps(seen))
