package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscall.ForkExec can set no limits, and a prlimit from outside comes after the program has begun. So the few steps between
// fork and exec are done here, with the same hooks of the runtime that package syscall uses and that it keeps open to others.

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// vfork is clone(2) with these flags and without a stack for the child. The child runs on the caller's stack and memory, and the
// caller's thread stands still, until the child has executed a program or exited. It is in assembly because the child overwrites
// the stack below its caller's frame, where the return address of a Go function would be.
//
//go:noescape
func vfork(flags uintptr) (pid uintptr, errno uintptr)

// childPlan is what a child does before it executes its program, all of it prepared. The child writes why it failed into it: it
// runs in the same memory.
type childPlan struct {
	argv, env, paths []*byte
	dir              *byte
	files            [3]uintptr
	tty              bool
	limits           []childLimit
	become, groups   bool
	uid, gid         uintptr
	ignored          []uintptr

	pid   uintptr
	step  int
	errno syscall.Errno
}

type childLimit struct {
	resource uintptr
	value    unix.Rlimit
}

// The steps of a child.
const (
	stepSession = iota
	stepFiles
	stepTerminal
	stepLimits
	stepGroups
	stepGroup
	stepUser
	stepDir
	stepExec
)

var childSteps = [...]string{"new session", "set descriptors", "set terminal", "set limits", "set groups", "set group", "set user",
	"change directory", "execute"}

// Between fork and exec only system calls are made. A call of any other function could grow the stack or wait for another
// thread, which does not exist in the child: hence one long function.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkExec(c *childPlan) syscall.Errno {
	var (
		errno  syscall.Errno
		i      int
		action [4]uintptr // struct sigaction of the kernel: all zero is the default
		none   uint64     // an empty signal set
		path   *byte
		denied bool
	)
	runtimeBeforeFork()
	pid, failed := vfork(syscall.CLONE_VM | syscall.CLONE_VFORK | uintptr(syscall.SIGCHLD))
	if failed != 0 {
		runtimeAfterFork()
		return syscall.Errno(failed)
	}
	if pid != 0 {
		runtimeAfterFork()
		c.pid = pid
		return 0
	}

	// In the child.
	runtimeAfterForkInChild()
	for i = range c.ignored {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, c.ignored[i], uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	c.step = stepSession
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto out
	}
	c.step = stepFiles
	for i = range c.files { // dup3 clears close-on-exec
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, c.files[i], uintptr(i), 0); errno != 0 {
			goto out
		}
	}
	// All that the guest opens is close-on-exec already; this is for what it was itself born with. Linux 5.11, else nothing.
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0), unix.CLOSE_RANGE_CLOEXEC)
	c.step = stepTerminal
	if c.tty {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0); errno != 0 {
			goto out
		}
	}
	c.step = stepLimits
	for i = range c.limits {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, c.limits[i].resource, uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0)
		if errno != 0 {
			goto out
		}
	}
	if c.become {
		c.step = stepGroups
		if c.groups {
			if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
				goto out
			}
		}
		c.step = stepGroup
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESGID, c.gid, c.gid, c.gid); errno != 0 {
			goto out
		}
		c.step = stepUser
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, c.uid, c.uid, c.uid); errno != 0 {
			goto out
		}
	}
	c.step = stepDir
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto out
	}
	c.step = stepExec
	errno = syscall.ENOENT // where there is no folder to look into
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
	if denied {
		errno = syscall.EACCES // as execvp(3): rather this than that the last folder did not hold it
	}
out:
	c.errno = errno
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// ignoredSignals lists the signals that this process ignores. Those that it handles are reset by the kernel at exec, these are
// not, and a program that is born with SIGPIPE ignored behaves strangely.
func ignoredSignals() (ignored []uintptr) {
	for n := uintptr(1); n <= 64; n++ {
		var action [4]uintptr
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] == 1 { // SIG_IGN
			ignored = append(ignored, n)
		}
	}
	return ignored
}
