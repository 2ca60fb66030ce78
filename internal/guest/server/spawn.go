package server

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// spawner is the one thread that starts processes, one after the other: they inherit its confinement.
type spawner struct {
	orders   chan *child
	oomScore *os.File
}

// newSpawner starts the thread and prepares it. The thread lives until close.
func newSpawner(cfg *Config) (*spawner, error) {
	sp := &spawner{orders: make(chan *child), oomScore: cfg.OOMScore}
	ready := make(chan error)
	go sp.live(cfg, ready)
	return sp, <-ready
}

// live is the thread's main function. It is never the process's first thread: that one decides which processes may
// signal the guest, and the code may signal processes under the same Landlock rules.
func (sp *spawner) live(cfg *Config, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: nothing else may run on it, and it ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		locked := make(chan error)
		go sp.live(cfg, locked) // this thread is locked, so another runs it
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
func (sp *spawner) spawn(ch *child) (int, error) {
	ch.done = make(chan struct{})
	sp.orders <- ch
	<-ch.done
	if ch.err != nil {
		return 0, ch.err
	}
	return ch.pid, nil
}

type child struct {
	order fork.Order
	pid   int
	done  chan struct{}
	err   error
}

// oomScoreMost makes started processes the kernel's first victims when memory runs out.
const oomScoreMost = 1000

// spawned forks and executes, on the spawner's thread.
func (ch *child) spawned(sp *spawner) {
	restore, err := raiseScore(sp.oomScore)
	if err != nil {
		ch.err = &guest.Failed{Kind: sandbox.Internal, Op: "raise oom_score_adj", Msg: err.Error()}
		return
	}
	ch.pid, _, ch.err = ch.order.Start()
	if ch.err != nil {
		ch.err = ch.refused()
	}
	if err := restore(); err != nil && ch.err == nil { // fail the start rather than leave the guest as the first victim
		ch.err = &guest.Failed{Kind: sandbox.Internal, Op: "restore oom_score_adj", Msg: err.Error()}
		syscall.Kill(ch.pid, syscall.SIGKILL)
		ch.abort()
	}
}

// abort reaps a child that failed to start.
func (ch *child) abort() {
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(ch.pid, &ws, 0, nil); err != syscall.EINTR {
			return // ECHILD: the reaper was first
		}
	}
}

// refused explains at which step the child failed.
func (ch *child) refused() error {
	var e *fork.Error
	if errors.Is(ch.err, syscall.EINVAL) && !errors.As(ch.err, &e) {
		return invalid("start", ch.err.Error())
	}
	if !errors.As(ch.err, &e) {
		return &guest.Failed{Kind: sandbox.Unavailable, Op: "start", Msg: ch.err.Error()}
	}
	f := failed(e.Step.String(), e.Errno)
	f.Msg = e.Errno.Error()
	switch e.Step {
	case fork.Directory:
		f.Op, f.Msg = "change to "+ch.order.Dir, "cannot enter the working directory: "+f.Msg
	case fork.Execute:
		f.Op = "execute " + ch.order.Argv[0]
		if e.Errno == syscall.ENOENT {
			f.Msg = "the program or its interpreter does not exist"
		}
		if e.Errno == syscall.ENOEXEC {
			f.Msg = "not a program: neither a binary of this machine nor a script with #!"
		}
	}
	return f
}

func invalid(op, msg string) error { return &guest.Failed{Kind: sandbox.Invalid, Op: op, Msg: msg} }

// raiseScore makes this process and its children the kernel's first victims when memory runs out, until restore is
// called.
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
