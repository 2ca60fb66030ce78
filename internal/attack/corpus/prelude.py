# Shared by the probes in Python. A probe prints "breach: WHAT" when it was given what a sandbox never gives, and "done"
# at its end.
import ctypes, errno, os, platform, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_ARM = platform.machine() == "aarch64"

# System call numbers: amd64, arm64.
NUMBERS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "perf_event_open": (298, 241), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "process_madvise": (440, 440), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    "seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "mq_open": (240, 180),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "syslog": (103, 116), "getppid": (110, 173),
    "prctl": (157, 167),
    "memfd_secret": (447, 447), "fanotify_init": (300, 262), "tgkill": (234, 131),
}


def number(call):
    return call if isinstance(call, int) else NUMBERS[call][1 if _ARM else 0]


def syscall(name, *args):
    """Makes a system call. Returns its value and the name of its error, or None."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    value = _libc.syscall(ctypes.c_long(number(name)), *words)
    return value, (errno.errorcode.get(ctypes.get_errno(), "?") if value == -1 else None)


def breach(what, *detail):
    print("breach:", what, *detail, flush=True)


def refused(what, name, *args, by="EPERM ENOSYS"):
    """The call must fail, and with an error that shows that the kernel did not look at its arguments."""
    value, error = syscall(name, *args)
    if error is None or error not in by.split():
        breach(what, value, error)
    else:
        print("refused:", what, error)


def closed(what, path, flags=os.O_WRONLY):
    """The file must not open."""
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
        breach(what, path)
    except OSError as e:
        print("closed:", path, errno.errorcode.get(e.errno))


def walk(*tops, skip=("/proc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")):
    """Every name below the folders, with its folder."""
    for top in tops:
        for folder, folders, files in os.walk(top):
            folders[:] = [f for f in folders if os.path.join(folder, f) not in skip]
            for name in files + folders:
                yield folder, name


