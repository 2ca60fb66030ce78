package fork

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Visit opens a file and a socket that belong to the namespaces in which they are opened. A short-lived child, which
// shares this process's memory and descriptors, enters these namespaces: a user namespace requires a process with one
// thread (setns(2)).
type Visit struct {
	Of         int     // a pidfd (Linux 5.8), or an open namespace
	Namespaces uintptr // CLONE_NEW* flags: what to enter
	Path       string  // a file, to open for reading and writing
	Socket     [3]int  // family, type, protocol
}

// The steps of a visit, which follow those of an order.
const (
	Join Step = Execute + 1 + iota
	OpenFile
	OpenSocket
)

// visiting is a visit in the kernel's form. The child writes the results into it.
type visiting struct {
	of, namespaces uintptr
	path           *byte
	socket         [3]uintptr
	file, sock     uintptr
	report
}

// Open makes the visit. The descriptors are close-on-exec, and the caller's. An *Error names the step that failed.
func (v *Visit) Open() (file, socket int, err error) {
	path, err := syscall.BytePtrFromString(v.Path)
	if err != nil {
		return -1, -1, err
	}
	const none = ^uintptr(0)
	c := &visiting{of: uintptr(v.Of), namespaces: v.Namespaces, path: path, file: none, sock: none,
		socket: [3]uintptr{uintptr(v.Socket[0]), uintptr(v.Socket[1] | unix.SOCK_CLOEXEC), uintptr(v.Socket[2])}}
	pid, failed := visit(c)
	runtimeAfterFork()
	runtime.KeepAlive(c)
	if failed != 0 {
		return -1, -1, &Error{Fork, syscall.Errno(failed)}
	}
	reap(int(pid))
	if c.errno == 0 {
		return int(c.file), int(c.sock), nil
	}
	if c.file != none {
		unix.Close(int(c.file))
	}
	return -1, -1, &Error{c.step, c.errno}
}

// visit returns only in the parent, which must call runtimeAfterFork at once; see forkExec. The child runs with all
// signals blocked, and executes no program.
//
//go:noinline
//go:norace
//go:nocheckptr
func visit(c *visiting) (pid, failed uintptr) {
	var errno syscall.Errno
	runtimeBeforeFork()
	pid, failed = vfork(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_VFORK|unix.CLONE_FILES|uintptr(syscall.SIGCHLD), 0, 0)
	if pid != 0 || failed != 0 {
		return pid, failed
	}

	// In the child.
	c.step = Join
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, c.of, c.namespaces, 0); errno != 0 {
		goto out
	}
	c.step = OpenFile
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_OPENAT, atCwd, uintptr(unsafe.Pointer(c.path)),
		syscall.O_RDWR|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		goto out
	}
	c.file = pid
	c.step = OpenSocket
	pid, _, errno = syscall.RawSyscall(syscall.SYS_SOCKET, c.socket[0], c.socket[1], c.socket[2])
	if errno == 0 {
		c.sock = pid
	}
out:
	c.errno = errno
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// atCwd is AT_FDCWD, -100, as a register holds it.
const atCwd = ^uintptr(99)
