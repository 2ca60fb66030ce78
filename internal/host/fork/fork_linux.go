package fork

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's hooks of package syscall, which the runtime permits others to use.

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// vfork makes the system call trap, clone(2) or clone3(2), without a stack for the child. The child runs on the
// caller's stack and memory, and the caller's thread waits, until the child executes a program or exits. It is in
// assembly because the child overwrites the stack below its caller's frame, where a Go function's return address would
// be.
func vfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)

// child is an order in the kernel's form. The child process writes the step and cause of its failure into it.
type child struct {
	making

	argv, env, paths []*byte
	program          uintptr // a descriptor; 0 is none
	dir              *byte
	files, tasks     []uintptr
	ambient          []uintptr
	tty              bool
	limits           []limit
	become           *Identity
	ignored          []uintptr
	moved            []int // descriptors that we must close

	reportIn  *os.File // receives the report of a child with its own memory
	reportOut int      // the child's end of it; -1 if memory is shared

	pidfd int32
	report
}

type making struct {
	first, call cloning // equal, unless a maker comes first
	clone3      cloneArgs
	spawned     *Identity
	mounts      uintptr // a descriptor; 0 is none
	second      uintptr // the process that the maker made
}

// cloning is a system call that makes a process.
type cloning struct {
	trap uintptr
	args [3]uintptr
}

// report says where and why a child failed.
type report struct {
	step  Step
	errno syscall.Errno
}

func (c *child) close() {
	for _, fd := range append(c.moved, c.reportOut) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if c.reportIn != nil {
		c.reportIn.Close()
	}
}

type limit struct {
	resource uintptr
	value    unix.Rlimit
}

// cloneArgs is struct clone_args of the kernel, as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

var nameless [1]byte // the empty path

var self = [...]byte{'0'} // writing it to a control group's tasks moves the writer there

// forkExec returns only in the parent. The caller must call runtimeAfterFork at once: the child has overwritten this
// frame, so only the results of vfork are valid.
//
// Between fork and exec it makes only system calls. Any other function call could grow the stack or wait for another
// thread, which does not exist in the child: hence one long function.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkExec(c *child) (pid, failed uintptr) {
	var (
		errno  syscall.Errno
		i      int
		action [4]uintptr // the kernel's struct sigaction: all zero is the default
		none   uint64     // an empty signal set
		header unix.CapUserHeader
		caps   [2]unix.CapUserData
		path   *byte
		denied bool
	)
	runtimeBeforeFork()
	pid, failed = vfork(c.first.trap, c.first.args[0], c.first.args[1], c.first.args[2])
	if pid != 0 || failed != 0 {
		return pid, failed
	}

	// In the child.
	runtimeAfterForkInChild()
	if c.spawned != nil {
		c.step = Mounts
		if c.mounts != 0 {
			if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, c.mounts, unix.CLONE_NEWNS, 0); errno != 0 {
				goto out
			}
		}
		c.step = Birth
		// Keep the old capabilities until the new user namespace exists, as hosts may restrict making one to root. They
		// are not effective after a change away from uid 0 (capabilities(7)).
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0, 0, 0, 0)
		if errno != 0 {
			goto out
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			goto out
		}
		_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(c.spawned.GID), uintptr(c.spawned.GID),
			uintptr(c.spawned.GID))
		if errno != 0 {
			goto out
		}
		_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(c.spawned.UID), uintptr(c.spawned.UID),
			uintptr(c.spawned.UID))
		if errno != 0 {
			goto out
		}
		header.Version = unix.LINUX_CAPABILITY_VERSION_3
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&caps)), 0); errno != 0 {
			goto out
		}
		caps[0].Effective, caps[1].Effective = caps[0].Permitted, caps[1].Permitted
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&caps)), 0); errno != 0 {
			goto out
		}
		c.step = Fork
		pid, failed = vfork(c.call.trap, c.call.args[0], c.call.args[1], c.call.args[2])
		if failed != 0 {
			errno = syscall.Errno(failed)
			goto out
		}
		if pid != 0 { // the maker again, after its process executed a program or failed
			c.second = pid
			for {
				_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
	for i = range c.ignored {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, c.ignored[i], uintptr(unsafe.Pointer(&action)), 0, 8,
			0, 0)
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, uintptr(unsafe.Pointer(&none)), 0, 8,
		0, 0)
	c.step = Session
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto out
	}
	// A thread that moves itself stops no others. A move by pid waits 6 to 18 ms for RCU (cgroup_attach_lock, Linux
	// 6.18).
	c.step = Enter
	for i = range c.tasks {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, c.tasks[i], uintptr(unsafe.Pointer(&self)),
			1); errno != 0 {
			goto out
		}
	}
	c.step = Privileges
	if len(c.ambient) > 0 {
		header.Version = unix.LINUX_CAPABILITY_VERSION_3
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&caps)), 0); errno != 0 {
			goto out
		}
		for i = range c.ambient {
			caps[c.ambient[i]>>5&1].Inheritable |= 1 << (c.ambient[i] & 31)
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&caps)), 0); errno != 0 {
			goto out
		}
		for i = range c.ambient {
			_, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE,
				c.ambient[i], 0,
				0, 0)
			if errno != 0 {
				goto out
			}
		}
	}
	c.step = Descriptors
	for i = range c.files { // dup3 clears close-on-exec
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, c.files[i], uintptr(i), 0); errno != 0 {
			goto out
		}
	}
	// Go's descriptors are close-on-exec already; this closes those that the process inherited or that non-Go code
	// opened. Linux 5.11, else nothing.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(len(c.files)), ^uintptr(0), unix.CLOSE_RANGE_CLOEXEC)
	c.step = Terminal
	if c.tty {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0); errno != 0 {
			goto out
		}
	}
	c.step = Limits
	for i = range c.limits {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, c.limits[i].resource,
			uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0)
		if errno != 0 {
			goto out
		}
	}
	if c.become != nil {
		c.step = Groups
		if !c.become.KeepGroups {
			if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
				goto out
			}
		}
		c.step = Group
		_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(c.become.GID), uintptr(c.become.GID),
			uintptr(c.become.GID))
		if errno != 0 {
			goto out
		}
		c.step = User
		_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(c.become.UID), uintptr(c.become.UID),
			uintptr(c.become.UID))
		if errno != 0 {
			goto out
		}
		if c.reportOut >= 0 { // fs.suid_dumpable may make the copy of our memory readable to the new user
			_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0)
		}
	}
	c.step = Directory
	if c.dir != nil {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
			goto out
		}
	}
	c.step = Execute
	errno = syscall.ENOENT // if there are no paths
	for i = range c.paths {
		path = c.paths[i]
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
		if errno == syscall.EACCES {
			denied = true
			continue
		}
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR {
			goto out
		}
	}
	if c.program != 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_EXECVEAT, c.program, uintptr(unsafe.Pointer(&nameless)),
			uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])), unix.AT_EMPTY_PATH, 0)
		goto out
	}
	if denied {
		errno = syscall.EACCES // like execvp(3), prefer this to the last folder's ENOENT
	}
out:
	c.errno = errno
	if c.reportOut >= 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.reportOut), uintptr(unsafe.Pointer(&c.report)),
			unsafe.Sizeof(c.report))
	}
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
