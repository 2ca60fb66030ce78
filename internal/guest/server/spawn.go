package server

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// spawner is the one thread from which processes are started, one after the other: they inherit its walls.
type spawner struct {
	orders   chan *birth
	oomScore *os.File
}

// newSpawner starts the thread and prepares it. The thread lives until close.
func newSpawner(cfg *Config) (*spawner, error) {
	sp := &spawner{orders: make(chan *birth), oomScore: cfg.OOMScore}
	ready := make(chan error)
	go sp.live(cfg, ready)
	return sp, <-ready
}

// live is the thread's life. It is never the first thread of the process: by that one the kernel decides who may signal the guest, and
// the code may signal whoever stands behind the same Landlock rules.
func (sp *spawner) live(cfg *Config, ready chan<- error) {
	runtime.LockOSThread() // and never unlock: the thread is not fit for anything else, and ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		locked := make(chan error)
		go sp.live(cfg, locked) // on another thread, as this one is held
		ready <- <-locked
		runtime.UnlockOSThread()
		return
	}
	var err error
	if cfg.Spawner != nil {
		err = cfg.Spawner()
	}
	ready <- err
	if err == nil {
		sp.run()
	}
}

func (sp *spawner) run() {
	for b := range sp.orders {
		b.spawned(sp)
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
	return b.pid, nil
}

// birth is one process on its way into the world.
type birth struct {
	order fork.Order
	pid   int
	done  chan struct{}
	err   error
}

// The score of what is started: the first to die of want of memory.
const oomScoreMost = 1000

// spawned forks and executes, on the spawner's thread.
func (b *birth) spawned(sp *spawner) {
	restore, err := raiseScore(sp.oomScore)
	if err != nil {
		b.err = &guest.Failed{Kind: sandbox.Internal, Op: "raise oom_score_adj", Msg: err.Error()}
		return
	}
	b.pid, _, b.err = b.order.Start()
	if b.err != nil {
		b.err = b.refused()
	}
	if err := restore(); err != nil && b.err == nil { // the guest must not stay the first to die; rather than that, this process does not run
		b.err = &guest.Failed{Kind: sandbox.Internal, Op: "restore oom_score_adj", Msg: err.Error()}
		syscall.Kill(b.pid, syscall.SIGKILL)
		b.stillborn()
	}
}

// stillborn reaps a child that is not to become an execution.
func (b *birth) stillborn() {
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(b.pid, &ws, 0, nil); err != syscall.EINTR {
			return // ECHILD: the reaper was faster
		}
	}
}

// refused says at which step the child failed.
func (b *birth) refused() error {
	var e *fork.Error
	if errors.Is(b.err, syscall.EINVAL) && !errors.As(b.err, &e) {
		return invalid("start", b.err.Error())
	}
	if !errors.As(b.err, &e) {
		return &guest.Failed{Kind: sandbox.Unavailable, Op: "start", Msg: b.err.Error()}
	}
	f := failed(e.Step.String(), e.Errno)
	f.Msg = e.Errno.Error()
	switch e.Step {
	case fork.Directory:
		f.Op, f.Msg = "change to "+b.order.Dir, "the working directory cannot be entered: "+f.Msg
	case fork.Execute:
		f.Op = "execute " + b.order.Argv[0]
		if e.Errno == syscall.ENOENT {
			f.Msg = "no such program, or its interpreter is missing"
		}
		if e.Errno == syscall.ENOEXEC {
			f.Msg = "not a program: neither a binary of this machine nor a script with #!"
		}
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
