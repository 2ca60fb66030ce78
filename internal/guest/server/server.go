package server

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Config configures a server.
type Config struct {
	Key  [guest.KeySize]byte // what a host must show
	ID   string              // of the sandbox
	User sandbox.User        // the code's user; the guest may be another

	// Init means that this process is pid 1, or a subreaper: the server reaps all its children.
	Init bool

	Lease    time.Duration // how long to live without a Lease message; 0 is for ever
	Promoted func()        // called, if set, when a lease makes a guest with a lifeline a living one
	Lifeline *os.File      // end-of-file ends the guest until a host gives it a lease; may be nil, should be non-blocking

	// Spawner prepares the one thread that starts all processes, which inherit its confinement. May be nil.
	Spawner func() error
	Limits  []guest.Rlimit // for all processes, below those of Start

	// OOMScore is the server's own oom_score_adj, open for writing. It is raised during each fork, so that the kernel kills
	// started processes before the guest. nil leaves scores alone.
	OOMScore *os.File

	// Visited means that processes enter the sandbox from outside. The sandbox must not kill them: they connect hosts.
	Visited bool

	Proc     *os.File // root of the proc file system to search; nil is /proc
	OwnClock bool     // the clock is the sandbox's own, so Reborn may set it

	// Hold is called after a host had the listener closed (guest.Hold); Serve then returns ErrHeld. nil refuses Hold.
	Hold func() error
}

// End says why a server ended.
type End string

// The reasons.
const (
	EndClosed   End = "closed"
	EndShutdown End = "shutdown" // a host requested it
	EndLease    End = "lease"    // no host came back in time
	EndLifeline End = "lifeline" // the host that held the other end is gone
)

// Server is the guest. Close ends it and waits for everything it started.
type Server struct {
	cfg     Config
	spawned time.Time
	proc    procfs
	spawner *spawner
	table   table
	files   *tree
	wg      sync.WaitGroup // goroutines that outlive a call

	setgroups groupsRule // guarded by the table's spawning lock
	ended     chan struct{}

	mu         sync.Mutex // guards all below
	end        End        // "" while it runs
	closed     bool       // no more goroutines may start
	key        [guest.KeySize]byte
	id         string
	generation uint64
	conns      map[*conn]struct{}
	listeners  map[io.Closer]*listening
	lease      *time.Timer // nil: for ever
	leases     uint64      // number of leases so far
	living     bool        // a host gave a lease, so the end of a lifeline means nothing
}

// New returns a server with a running lease and a prepared spawner.
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

// goes runs f on a goroutine that Close waits for. After Close it only returns false.
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

// Serve accepts connections until the server ends. The descriptor must be non-blocking.
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

// acceptPause is the pause after the process or the system had no room for a connection.
const acceptPause = 10 * time.Millisecond

// accept waits for one connection. Package net can do it too, but would double the guest's size.
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

// Wait returns once the server has ended, with the reason. The caller then exits, and with pid 1 everything ends.
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
	s.finishLocked(why)
}

// finishLocked is finish with mu held.
func (s *Server) finishLocked(why End) {
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

// Close ends the server with everything it has started, and waits until all of it is gone. For tests, and for a guest that
// is not pid 1.
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
