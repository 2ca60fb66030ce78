package files

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxThreads bounds the threads for file calls. Calls are short: they never wait for the host.
const maxThreads = 4

// threads make system calls as the code's user, so that the kernel permits only what the code may do. Each is an
// operating-system thread whose file-system ids are set once and never reset; it ends with its goroutine. They start on
// demand.
//
// Setting the ids makes the guest not dumpable (commit_creds in the kernel), which is intended.
type threads struct {
	user sandbox.User
	self bool // the guest already is that user: no threads needed

	jobs chan job
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	started int
	closed  bool
}

type job struct {
	do   func() error
	done chan<- error
}

func newThreads(user sandbox.User) *threads {
	self := uint32(os.Geteuid()) == user.UID && uint32(os.Getegid()) == user.GID
	return &threads{user: user, self: self, jobs: make(chan job), quit: make(chan struct{})}
}

// do runs f as the code's user and waits for it.
func (t *threads) do(f func() error) error {
	if t.self {
		return f()
	}
	done := make(chan error, 1)
	j := job{f, done}
	select {
	case t.jobs <- j:
	default:
		if !t.start() {
			return unix.ESHUTDOWN
		}
		select {
		case t.jobs <- j:
		case <-t.quit:
			return unix.ESHUTDOWN
		}
	}
	return <-done
}

// start adds a thread unless there are enough. It returns false after close.
func (t *threads) start() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if t.started < maxThreads {
		t.started++
		t.wg.Add(1)
		go t.run()
	}
	return true
}

// run never unlocks its thread: the runtime ends a thread whose goroutine leaves it locked, and never starts new
// threads from a locked one, so no other goroutine ever runs with these ids.
func (t *threads) run() {
	defer t.wg.Done()
	runtime.LockOSThread()
	err := Become(t.user)
	for {
		select {
		case <-t.quit:
			return
		case j := <-t.jobs:
			if err != nil {
				j.done <- err
				continue
			}
			j.done <- j.do()
		}
	}
}

// close ends the threads and waits for them. Later calls fail.
func (t *threads) close() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.quit)
	}
	t.mu.Unlock()
	t.wg.Wait()
}

// Become sets the calling thread's file-system ids, and drops its supplementary groups, which also count.
func Become(user sandbox.User) error {
	groups, err := unix.Getgroups()
	if err != nil {
		return err
	}
	if len(groups) > 0 {
		// Raw, since the package's function would drop the groups of every thread.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	// These calls report no failure; they return the previous id.
	unix.SetfsgidRetGid(int(user.GID))
	unix.SetfsuidRetUid(int(user.UID))
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if uint32(gid) == user.GID && uint32(uid) == user.UID {
		return nil
	}
	// gVisor has no file-system ids. There the thread's effective ids serve the same purpose.
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, same, uintptr(user.GID), same); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(user.UID), same); errno != 0 {
		return errno
	}
	return nil
}
