package server

import (
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// spawner is the one thread from which processes are started, one after the other: they inherit its walls.
type spawner struct {
	orders   chan *birth
	oomScore *os.File
	ignored  []uintptr // signals that this process ignores, and that a new one shall not
}

// newSpawner starts the thread and prepares it. The thread lives until close.
func newSpawner(cfg *Config) (*spawner, error) {
	sp := &spawner{orders: make(chan *birth), oomScore: cfg.OOMScore, ignored: ignoredSignals()}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is not fit for anything else, and ends with the goroutine
		var err error
		if cfg.Spawner != nil {
			err = cfg.Spawner()
		}
		ready <- err
		if err == nil {
			sp.run()
		}
	}()
	return sp, <-ready
}

func (sp *spawner) run() {
	for b := range sp.orders {
		b.born(sp)
		close(b.done)
	}
}

func (sp *spawner) close() { close(sp.orders) }

// spawn starts a process and returns its pid.
func (sp *spawner) spawn(b *birth) (int, error) {
	b.done = make(chan struct{})
	sp.orders <- b
	<-b.done
	if b.err != nil {
		return 0, b.err
	}
	return int(b.child.pid), nil
}

// birth is one process on its way into the world.
type birth struct {
	argv   []string
	paths  []string // where to look for the program, in this order
	env    []string
	dir    string
	user   sandbox.User
	become bool // user is another one than the guest
	groups bool // and its groups may be set
	files  [3]int
	tty    bool
	limits []guest.Rlimit
	child  childPlan
	done   chan struct{}
	err    error
}

// The score of what is started: the first to die of want of memory.
const oomScoreMost = 1000

// born forks and executes, on the spawner's thread.
func (b *birth) born(sp *spawner) {
	if b.err = b.prepare(sp); b.err != nil {
		return
	}
	restore, err := raiseScore(sp.oomScore)
	if err != nil {
		b.err = &guest.Failed{Kind: sandbox.Internal, Op: "raise oom_score_adj", Msg: err.Error()}
		return
	}
	syscall.ForkLock.Lock()
	errno := forkExec(&b.child)
	syscall.ForkLock.Unlock()
	err = restore()
	switch {
	case errno != 0:
		b.err = failed("fork", errno)
	case b.child.errno != 0:
		b.err = b.refused()
		b.stillborn()
	case err != nil: // the guest must not stay the first to die; rather than that, this process does not run
		b.err = &guest.Failed{Kind: sandbox.Internal, Op: "restore oom_score_adj", Msg: err.Error()}
		syscall.Kill(int(b.child.pid), syscall.SIGKILL)
		b.stillborn()
	}
}

// stillborn reaps a child that is not to become an execution.
func (b *birth) stillborn() {
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(int(b.child.pid), &ws, 0, nil); err != syscall.EINTR {
			return // ECHILD: the reaper was faster
		}
	}
}

// prepare turns everything into what the kernel takes, as nothing can be allocated after the fork.
func (b *birth) prepare(sp *spawner) (err error) {
	c := &b.child
	if c.argv, err = syscall.SlicePtrFromStrings(b.argv); err != nil {
		return invalid("argv", "an argument holds a NUL byte")
	}
	if c.env, err = syscall.SlicePtrFromStrings(b.env); err != nil {
		return invalid("env", "a variable holds a NUL byte")
	}
	if c.dir, err = syscall.BytePtrFromString(b.dir); err != nil {
		return invalid("dir", "the path holds a NUL byte")
	}
	for _, p := range b.paths {
		ptr, err := syscall.BytePtrFromString(p)
		if err != nil {
			return invalid("argv", "the program's path holds a NUL byte")
		}
		c.paths = append(c.paths, ptr)
	}
	for i, fd := range b.files {
		if fd <= 2 { // the child's own would be overwritten while they are put in place
			return &guest.Failed{Kind: sandbox.Internal, Op: "start", Msg: "the guest runs without descriptors 0, 1 and 2"}
		}
		c.files[i] = uintptr(fd)
	}
	for _, l := range b.limits {
		c.limits = append(c.limits, childLimit{uintptr(l.Resource), unix.Rlimit{Cur: l.Value, Max: l.Value}})
	}
	c.become, c.groups, c.tty, c.ignored = b.become, b.groups, b.tty, sp.ignored
	c.uid, c.gid = uintptr(b.user.UID), uintptr(b.user.GID)
	return nil
}

// refused says at which step the child failed.
func (b *birth) refused() error {
	c := &b.child
	f := failed(childSteps[c.step], c.errno)
	switch c.step {
	case stepDir:
		f.Op, f.Msg = "change to "+b.dir, "the working directory cannot be entered: "+c.errno.Error()
	case stepExec:
		f.Op, f.Msg = "execute "+b.argv[0], c.errno.Error()
		if c.errno == syscall.ENOENT {
			f.Msg = "no such program, or its interpreter is missing"
		}
		if c.errno == syscall.ENOEXEC {
			f.Msg = "not a program: neither a binary of this machine nor a script with #!"
		}
	default:
		f.Msg = c.errno.Error()
	}
	return f
}

func invalid(op, msg string) error { return &guest.Failed{Kind: sandbox.Invalid, Op: op, Msg: msg} }

// raiseScore makes this process, and so what it forks, the first to die of want of memory, until restore is called.
func raiseScore(f *os.File) (restore func() error, err error) {
	if f == nil {
		return func() error { return nil }, nil
	}
	var b [16]byte
	n, err := f.ReadAt(b[:], 0)
	if n == 0 {
		return nil, err
	}
	for n > 0 && b[n-1] == '\n' {
		n--
	}
	was := b[:n]
	if _, err := f.WriteAt(strconv.AppendInt(nil, oomScoreMost, 10), 0); err != nil {
		return nil, err
	}
	return func() error {
		_, err := f.WriteAt(was, 0)
		return err
	}, nil
}
