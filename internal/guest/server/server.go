package server

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Config is what a server is told at its birth.
type Config struct {
	Key  [guest.KeySize]byte // what a host must show
	ID   string              // of the sandbox
	User sandbox.User        // the code's; whoever else the guest may be

	// Init says that this process is pid 1, or at least a subreaper: all its children are the server's to reap.
	Init bool

	Lease    time.Duration // how long to live without a host's Lease message; 0 is for ever
	Lifeline *os.File      // where reading it ends, so does the guest; nil is none. Best non-blocking

	// Spawner prepares the one thread from which all processes are started, as its walls are what they inherit. nil is nothing.
	Spawner func() error
	Limits  []guest.Rlimit // of all that is started, under those of Start

	// OOMScore is the server's own oom_score_adj, open for writing. The score is raised for the instant of each fork, so that
	// what is started dies of want of memory before the guest does. nil leaves scores alone.
	OOMScore *os.File

	// Visited says that processes come into the sandbox from outside, and are not the sandbox's to kill: hosts are at their other end.
	Visited bool

	Proc     *os.File // the root of a proc file system to look for processes in; nil is /proc
	OwnClock bool     // Reborn may set the clock: it is the sandbox's own

	// Hold is called once the listener is closed because a host asked for it (guest.Hold), and Serve returns ErrHeld. nil refuses to.
	Hold func() error
}

// End says why a server ended.
type End string

// The reasons.
const (
	EndClosed   End = "closed"
	EndShutdown End = "shutdown" // a host said so
	EndLease    End = "lease"    // no host came back in time
	EndLifeline End = "lifeline" // the host that held the other end is gone
)

// Server is the guest. Close ends it and waits for all that it began.
type Server struct {
	cfg     Config
	spawned time.Time
	proc    procfs
	spawner *spawner
	table   table
	files   *tree
	wg      sync.WaitGroup // goroutines that live longer than a call

	setgroups groupsRule // guarded by the table's birth
	ended     chan struct{}

	mu         sync.Mutex // guards all below
	end        End        // "" while it lives
	closed     bool       // no goroutine may begin any more
	key        [guest.KeySize]byte
	id         string
	generation uint64
	conns      map[*conn]struct{}
	listeners  map[io.Closer]*listening
	lease      *time.Timer // nil: for ever
	leases     uint64      // how many there were
}

// New returns a server whose lease runs, and whose spawner is prepared.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, spawned: time.Now(), ended: make(chan struct{}), key: cfg.Key, id: cfg.ID, generation: 1,
		conns: make(map[*conn]struct{}), listeners: make(map[io.Closer]*listening)}
	s.cfg.Key = [guest.KeySize]byte{}
	s.proc = procfs{root: cfg.Proc}
	s.files = newTree(cfg.User)
	s.table.init()
	if cfg.Init {
		ignoreSignals()
	}
	var err error
	if s.spawner, err = newSpawner(&cfg); err != nil {
		return nil, err
	}
	s.setLease(cfg.Lease)
	if cfg.Init {
		s.goes(s.reapAll)
	}
	if cfg.Lifeline != nil {
		s.goes(func() { s.watchLifeline(cfg.Lifeline) })
	}
	return s, nil
}

// goes runs f on a goroutine that Close waits for. After Close it does nothing, and is false.
func (s *Server) goes(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		f()
	}()
	return true
}

// Serve takes connections from a listening socket until the server ends. The descriptor must be non-blocking.
func (s *Server) Serve(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	l := &listening{over: make(chan struct{})}
	defer close(l.over)
	s.mu.Lock()
	s.listeners[listener] = l
	over := s.end != ""
	s.mu.Unlock()
	if over {
		return nil
	}
	for {
		fd, err := accept(raw)
		switch {
		case s.isEnded():
			return nil
		case err != nil && s.isHeld(l):
			return ErrHeld
		case err == syscall.EMFILE || err == syscall.ENFILE || err == syscall.ENOMEM || err == syscall.ENOBUFS:
			time.Sleep(acceptPause)
		case err != nil:
			return err
		default:
			f := os.NewFile(uintptr(fd), "connection")
			if !s.goes(func() { s.ServeConn(f) }) {
				f.Close()
			}
		}
	}
}

// acceptPause is how long no connection is taken after the process or the system had no room for one.
const acceptPause = 10 * time.Millisecond

// accept waits for one connection. Package net would do it too, and double the guest's size.
func accept(raw syscall.RawConn) (fd int, err error) {
	var errno syscall.Errno
	waiting := raw.Read(func(l uintptr) bool {
		for {
			var r uintptr
			r, _, errno = syscall.Syscall6(syscall.SYS_ACCEPT4, l, 0, 0, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0, 0)
			fd = int(r)
			if errno != syscall.EINTR && errno != syscall.ECONNABORTED {
				return errno != syscall.EAGAIN
			}
		}
	})
	if waiting != nil {
		return -1, waiting
	}
	if errno != 0 {
		return -1, errno
	}
	return fd, nil
}

// Wait returns once the server has ended, with the reason. The caller then exits, and with pid 1 all else goes.
func (s *Server) Wait() End {
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

func (s *Server) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// finish ends the server, once.
func (s *Server) finish(why End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != "" {
		return
	}
	s.end = why
	if s.lease != nil {
		s.lease.Stop()
	}
	close(s.ended)
	for l := range s.listeners {
		l.Close()
	}
}

// Close ends the server with all that it has started, and waits until nothing of it is left. It is for tests, and for a guest
// that is not pid 1.
func (s *Server) Close() error {
	s.finish(EndClosed)
	s.closeConns(nil)
	if s.cfg.Lifeline != nil {
		s.cfg.Lifeline.Close()
	}
	s.table.stop()
	s.endAll(nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
	s.spawner.close()
	s.files.close()
	return nil
}
