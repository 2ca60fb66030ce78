// Package fork starts programs, by vfork(2) if possible: the child borrows this process's memory until it executes, so
// the cost does not depend on this process's size. Package os copies the page tables of the whole process for a new
// user namespace (1.5 ms for a small server), and can neither set limits nor enter control groups between fork and
// exec.
package fork

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Order is a program to start, and its process's steps before that.
type Order struct {
	Paths   []string // possible paths of the program, tried like execvp(3), without scripts that lack #!
	Program int      // without Paths: the child's descriptor, in Files, to execute; its path may be invisible
	Argv    []string
	Env     []string
	Dir     string // as the child sees it, after Become; "" is this process's
	Files   []int  // descriptors 0, 1, 2 and so on of the child; all others are closed

	Namespaces uintptr   // CLONE_NEW* flags
	As         *Identity // identity in this process's user namespace while the new ones are made; nil: unchanged
	Mounts     int       // an open mount namespace for the child to copy instead of this process's; 0 is none. Needs As
	Cgroup     int       // an open v2 group to be spawned in (Linux 5.7); 0 is none
	Tasks      []int     // open "tasks" files of v1 groups, which the child enters
	Ambient    []uintptr // capabilities to keep across exec, although the id is not mapped in the new user namespace

	// Copy gives the child a copy of this process's memory instead of lending it. It is for a child that other
	// processes of its user may stop before it executes: a stopped child with borrowed memory blocks its parent's
	// thread for ever.
	Copy bool

	PIDFD  bool // return a pidfd of the child
	TTY    bool // descriptor 0 becomes the controlling terminal
	Limits []Limit
	Become *Identity // nil: unchanged
}

// Limit is a resource limit, hard and soft.
type Limit struct {
	Resource uint32
	Value    uint64
}

// Identity is a process's real, effective and saved ids.
type Identity struct {
	UID, GID   uint32
	KeepGroups bool // keep the supplementary groups, if setgroups is denied (CVE-2014-8989)
}

// Step is the step at which a child failed.
type Step int

const (
	Fork Step = iota
	Mounts
	Birth
	Session
	Enter
	Privileges
	Descriptors
	Terminal
	Limits
	Groups
	Group
	User
	Directory
	Execute
)

var steps = [...]string{"fork", "join mounts", "take identity", "new session", "join control group",
	"keep capabilities", "set descriptors", "set terminal", "set limits",
	"set groups", "set group", "set user", "change directory", "execute"}

func (s Step) String() string { return steps[s] }

// Error reports a child that failed before its program, and is gone.
type Error struct {
	Step  Step
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Step.String() + ": " + e.Errno.Error() }
func (e *Error) Unwrap() error { return e.Errno }

// Start starts the program and returns once it runs, or was killed before: its pid and, with PIDFD, a pidfd that the
// caller closes, otherwise -1. The caller waits for the process, its child. The process inherits the calling thread's
// confinement; a confined caller locks its goroutine to the thread.
func (o *Order) Start() (pid, pidfd int, err error) {
	c, err := o.prepare()
	if err != nil {
		return -1, -1, err
	}
	defer c.close()
	// Code that makes a descriptor close-on-exec by a second call holds this lock for reading.
	syscall.ForkLock.Lock()
	child, failed := forkExec(c)
	runtimeAfterFork()
	syscall.ForkLock.Unlock()
	if failed != 0 {
		return -1, -1, &Error{Fork, syscall.Errno(failed)}
	}
	if o.Copy {
		c.hear(int(child))
	}
	if o.As != nil {
		reap(int(child)) // the maker, or a child that failed
		child = c.second
	}
	if c.errno == 0 {
		return int(child), int(c.pidfd), nil
	}
	if o.PIDFD && c.pidfd >= 0 {
		unix.Close(int(c.pidfd))
	}
	if child > 0 {
		reap(int(child))
	}
	return -1, -1, &Error{c.step, c.errno}
}

func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR { // ECHILD if the caller reaps all children
			return
		}
	}
}

// execTimeout bounds the few system calls of a child with its own memory until it executes its program, on a busy host.
const execTimeout = 5 * time.Second

// hear waits until a child with its own memory executes its program or reports a failure. It kills a child that does
// neither, because another process of its user has stopped it.
func (c *child) hear(pid int) {
	unix.Close(c.reportOut)
	c.reportOut = -1
	var said report
	_ = c.reportIn.SetReadDeadline(time.Now().Add(execTimeout)) // pipes support deadlines
	_, err := io.ReadFull(c.reportIn, unsafe.Slice((*byte)(unsafe.Pointer(&said)), unsafe.Sizeof(said)))
	switch {
	case err == nil:
		c.step, c.errno = said.step, said.errno
	case !errors.Is(err, io.EOF): // a time-out or another error: the program may not run
		_ = unix.Kill(pid, unix.SIGKILL)
		c.step, c.errno = Execute, unix.ETIMEDOUT
	}
}

// prepare converts the order for the kernel, as the child cannot allocate.
func (o *Order) prepare() (_ *child, err error) {
	if o.Mounts > 0 && o.As == nil {
		return nil, errors.New("Mounts needs As") // the maker joins them
	}
	if o.Program > 0 && len(o.Paths) > 0 {
		return nil, errors.New("Program and Paths exclude each other")
	}
	c := &child{pidfd: -1, reportOut: -1, tty: o.TTY, ambient: o.Ambient, become: o.Become,
		making: making{spawned: o.As, mounts: uintptr(o.Mounts)}, program: uintptr(o.Program)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.argv, err = syscall.SlicePtrFromStrings(o.Argv); err != nil {
		return nil, fmt.Errorf("an argument contains a NUL byte: %w", err)
	}
	if c.env, err = syscall.SlicePtrFromStrings(o.Env); err != nil {
		return nil, fmt.Errorf("the environment contains a NUL byte: %w", err)
	}
	if o.Dir != "" {
		if c.dir, err = syscall.BytePtrFromString(o.Dir); err != nil {
			return nil, fmt.Errorf("the directory's path contains a NUL byte: %w", err)
		}
	}
	for _, p := range o.Paths {
		ptr, err := syscall.BytePtrFromString(p)
		if err != nil {
			return nil, fmt.Errorf("the program's path contains a NUL byte: %w", err)
		}
		c.paths = append(c.paths, ptr)
	}
	if o.Copy {
		if err := c.pipe(len(o.Files)); err != nil {
			return nil, fmt.Errorf("pipe: %w", err)
		}
	}
	for _, fd := range o.Files {
		if fd < len(o.Files) { // it would be overwritten while the others are placed
			if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(o.Files)); err != nil {
				return nil, fmt.Errorf("move descriptor: %w", err)
			}
			c.moved = append(c.moved, fd)
		}
		c.files = append(c.files, uintptr(fd))
	}
	for _, fd := range o.Tasks {
		c.tasks = append(c.tasks, uintptr(fd))
	}
	for _, l := range o.Limits {
		c.limits = append(c.limits, limit{uintptr(l.Resource), unix.Rlimit{Cur: l.Value, Max: l.Value}})
	}
	c.ignored = ignored()
	c.clone(o)
	return c, nil
}

// pipe makes the pipe on which a child with its own memory reports a failure; executing its program closes it.
func (c *child) pipe(above int) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return err
	}
	c.reportIn = os.NewFile(uintptr(ends[0]), "fork")
	reportOut, err := unix.FcntlInt(uintptr(ends[1]), unix.F_DUPFD_CLOEXEC, above)
	unix.Close(ends[1])
	c.reportOut = reportOut
	return err
}

// clone chooses the system call: only clone3 supports a control group, and the guest's own filter permits only clone.
//
// A process under another identity has a maker between it and this process. The maker takes that identity and then
// makes the process: the maker of a user namespace owns it, and a later change would affect every thread. The maker
// shares this process's descriptors, so that the pidfd arrives here, and its parent (CLONE_PARENT), whose exit signal
// is then its own.
func (c *child) clone(o *Order) {
	flags := o.Namespaces
	if !o.Copy {
		flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if o.PIDFD {
		flags |= unix.CLONE_PIDFD
	}
	signal := uintptr(syscall.SIGCHLD)
	if o.As != nil {
		flags, signal = flags|unix.CLONE_PARENT, 0
	}
	c.call = cloning{unix.SYS_CLONE, [3]uintptr{flags | signal, 0, uintptr(unsafe.Pointer(&c.pidfd))}}
	if o.Cgroup > 0 {
		c.clone3 = cloneArgs{flags: uint64(flags | unix.CLONE_INTO_CGROUP),
			pidfd:      uint64(uintptr(unsafe.Pointer(&c.pidfd))),
			exitSignal: uint64(signal), cgroup: uint64(o.Cgroup)}
		c.call = cloning{unix.SYS_CLONE3, [3]uintptr{uintptr(unsafe.Pointer(&c.clone3)), unsafe.Sizeof(c.clone3), 0}}
	}
	c.first = c.call
	if o.As != nil {
		maker := uintptr(unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_FILES)
		c.first = cloning{unix.SYS_CLONE, [3]uintptr{maker | uintptr(syscall.SIGCHLD), 0, 0}}
	}
}

// ignored lists the signals that this process ignored when it first started a program. The kernel resets handled
// signals at exec, but not these, and a program with SIGPIPE ignored misbehaves.
var ignored = sync.OnceValue(func() (signals []uintptr) {
	for n := uintptr(1); n <= 64; n++ {
		var action [4]uintptr
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] == 1 { // SIG_IGN
			signals = append(signals, n)
		}
	}
	return signals
})
