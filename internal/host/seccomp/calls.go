//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// group is a group of calls, with the kernel memory that a sandbox can hold by them outside any memory control group.
// Document the same for each call that you add. "Counts" is true since Linux 5.15, which completed it (System V
// objects, signals, timers). For file locks and TCP sockets, which the kernel does not limit, the native backend
// watches sandboxes (hoard).
type group struct {
	uncounted string
	calls     []int
}

// allowed are the system calls that every program may make, on every architecture. Refused are calls that make or enter
// namespaces and mounts, load code into the kernel, trace or read other processes, hold keys, set the host's clocks and
// names, open files by handle, and the few for single privileged programs.
var allowed = []group{
	{"Descriptors, files, entries and pipes count, with their names and pages. Not a symbolic link's target up to " +
		"128 bytes, nor the 300 bytes at most of a descriptor without a file: the limits of inodes, open files and " +
		"processes limit both. Not locks on parts of files, 192 bytes each. Extended attributes are refused below, " +
		"as nothing counts an ACL's 64 KiB on each file.", []int{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
		unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_OPENAT, unix.SYS_OPENAT2,
		unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_FSTATFS,
		unix.SYS_STATFS, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT,
		unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_READLINKAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE,
		unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FADVISE64,
		unix.SYS_READAHEAD, unix.SYS_COPY_FILE_RANGE, unix.SYS_FLOCK, unix.SYS_FCNTL, unix.SYS_DUP, unix.SYS_DUP3,
		unix.SYS_PIPE2, unix.SYS_UMASK, unix.SYS_CACHESTAT, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR,
		unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
		unix.SYS_FREMOVEXATTR,
	}},
	{"Watches, events and wait entries count. A watch keeps its file's inode in memory, charged to its first reader: " +
		"fs.inotify.max_user_watches limits them, by default to 1 % of the host's memory.", []int{
		unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
		unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_SIGNALFD4, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME,
		unix.SYS_TIMERFD_GETTIME, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH,
	}},
	{"Pages, page tables and areas count. Not the tree nodes of areas, an eighth of their size. Memory node " +
		"policies, names of areas (prctl), huge pages and mergeable pages are refused: each is unlimited " +
		"memory.", []int{
		unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MINCORE,
		unix.SYS_MSYNC, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MLOCKALL, unix.SYS_MUNLOCK, unix.SYS_MUNLOCKALL,
		unix.SYS_MEMBARRIER, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_MSEAL,
	}},
	{"Tasks, stacks and credentials count. Not a session's place in the scheduler (with autogroup), 1.5 KiB for each " +
		"CPU, nor a few " +
		"hundred bytes per task for I/O and priority-inheriting locks: the process limit limits them.", []int{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID,
		unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_SETPGID, unix.SYS_GETSID,
		unix.SYS_SETSID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETGROUPS,
		unix.SYS_SETGROUPS, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID,
		unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID,
		unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST,
		unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_RSEQ, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_PRLIMIT64,
		unix.SYS_GETRUSAGE, unix.SYS_TIMES, unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_GET,
		unix.SYS_IOPRIO_SET, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_GET_PRIORITY_MAX,
		unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_GETCPU, unix.SYS_PIDFD_OPEN,
		unix.SYS_PIDFD_SEND_SIGNAL,
	}},
	{"Timers and queued signals count, and RLIMIT_SIGPENDING limits them.", []int{
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
		unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_RT_SIGRETURN,
		unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES,
		unix.SYS_GETTIMEOFDAY, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE,
		unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_SETTIME,
	}},
	{"Sockets, data in AF_UNIX sockets and descriptors in flight count; for TCP and UDP see loopback in SECURITY.md. " +
		"Not connections that nobody accepts, nor unsent data of closed sockets, 3 KiB each. Not 256 bytes of a " +
		"connection for a minute after its end: net.ipv4.tcp_max_tw_buckets limits them per network namespace; the " +
		"guest sets it. Options that hold memory are refused below (socket and setsockopt).", []int{
		unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME,
		unix.SYS_GETPEERNAME, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG,
		unix.SYS_RECVMMSG, unix.SYS_GETSOCKOPT, unix.SYS_SHUTDOWN,
	}},
	{"System V objects and messages and POSIX queues count; all belong to the sandbox's namespace and end with it.",
		[]int{
			unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL,
			unix.SYS_SEMTIMEDOP, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN,
			unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY,
			unix.SYS_MQ_GETSETATTR,
		}},
	{"Nothing. The host name is the sandbox's own.", []int{unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETRANDOM}},
}

// nested are the calls by which a program confines itself further, in addition to its own filters. Rule sets count, but
// since Linux 6.15 each refusal goes to the host's audit log, as often as the code likes.
var nested = []int{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}

// absent are answered as by a kernel that lacks them; their callers fall back: glibc from clone3 (whose flags are
// behind a pointer) to clone, libuv from io_uring (whose work passes no filter) to epoll. The older asynchronous I/O's
// requests have a host-wide limit (fs.aio-max-nr), which one sandbox could use up. Without memory node policies a host
// looks like one with a single node: each page of a file in memory could hold a policy of 300 bytes that nothing
// counts.
var absent = []int{
	unix.SYS_IO_SETUP, unix.SYS_IO_DESTROY, unix.SYS_IO_SUBMIT, unix.SYS_IO_CANCEL, unix.SYS_IO_GETEVENTS,
	unix.SYS_IO_PGETEVENTS, unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER, unix.SYS_MEMFD_SECRET, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_GET_MEMPOLICY,
	unix.SYS_SET_MEMPOLICY_HOME_NODE,
}

// unsupported are answered as by a file system without extended attributes. A tmpfs's ACLs take 64 KiB each, counted to
// nobody; copying programs cope.
var unsupported = []int{unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR}

// pinning are answered as by files that do not support them; callers copy instead. They put a file's own page into a
// socket, which stays in the host's memory until it is read, charged to the file's first reader, perhaps another
// sandbox.
var pinning = []int{unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_VMSPLICE, unix.SYS_TEE}

// skipped succeed without effect. The first two flush whole file systems of the host, not only the sandbox's files;
// fsync flushes files in host directories. sched_setaffinity moves a running program to another CPU by a kernel thread
// that no limit counts, and that runs before all others: code that moves back and forth doubles its CPU time.
var skipped = []int{unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SCHED_SETAFFINITY}

// flushes are also skipped unless a host directory is writable. Even on a read-only host file, each flushes the disk's
// own cache.
var flushes = []int{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE}

const (
	sysOpenat2     = unix.SYS_OPENAT2
	sysMemfdCreate = unix.SYS_MEMFD_CREATE
	sysExecveat    = unix.SYS_EXECVEAT
)

// setIDModes are the calls with a file mode argument, each with the rule that refuses set-id bits.
func setIDModes() map[int]Rule {
	mode := func(arg int) Rule { return Rule{Arg: arg, Mask: setIDBits, Op: AnyBit, Answer: eperm} }
	rules := map[int]Rule{
		unix.SYS_FCHMOD: mode(1), unix.SYS_FCHMODAT: mode(2), unix.SYS_FCHMODAT2: mode(2), unix.SYS_OPENAT: mode(3),
		unix.SYS_MKDIRAT: mode(2), unix.SYS_MKNODAT: mode(2),
	}
	for nr, arg := range setIDModesHere {
		rules[nr] = mode(arg)
	}
	return rules
}
