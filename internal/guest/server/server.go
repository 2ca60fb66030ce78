package server

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/server/files"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type Config struct {
	Key  [guest.KeySize]byte // a host must show it
	ID   string              // of the sandbox
	User sandbox.User        // the code's user; the guest may be another

	// Init means that this process is pid 1, or a subreaper: the server reaps all its children.
	Init bool

	Lease    time.Duration // ends the guest without a Lease message; 0 means never
	Promoted func()        // called when a lease makes a one-shot guest a living one; may be nil
	// end-of-file ends the guest until a host gives it a lease; may be nil, should be non-blocking
	Lifeline *os.File

	// Spawner prepares the one thread that starts all processes, which inherit its confinement. May be nil.
	Spawner func() error
	Limits  []guest.Rlimit // for all processes, below those of Start

	// OOMScore is the server's own oom_score_adj, open for writing. It is raised during each fork, so that the kernel
	// kills started processes before the guest. nil leaves scores alone.
	OOMScore *os.File

	// Memory makes a pid 1 kill the largest processes when more bytes are used than at its start and these. The kernel
	// must be gVisor, which counts those of the sandbox alone. 0 is no limit.
	Memory uint64
	// RootMemory makes the used bytes of the root's file system count as memory.
	RootMemory bool

	// Visited means that processes enter the sandbox from outside and connect hosts. The guest must not kill them.
	Visited bool

	Proc     *os.File // root of the proc file system to search; nil is /proc
	OwnClock bool     // the clock is the sandbox's own, so Reborn may set it

	// Hold is called after a host has closed the listener (guest.Hold); Serve then returns ErrHeld. nil refuses Hold.
	Hold func() error
}

// End is the reason why a server ended.
type End string

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
	files   *files.Tree
	memory  memoryWatch
	wg      sync.WaitGroup // goroutines that outlive a call

	ended chan struct{}

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
	living     bool        // a host gave a lease, so the guest outlives its lifeline
}

// New returns a server with a running lease and a prepared spawner.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, spawned: time.Now(), ended: make(chan struct{}), key: cfg.Key, id: cfg.ID, generation: 1,
		conns: make(map[*conn]struct{}), listeners: make(map[io.Closer]*listening)}
	s.cfg.Key = [guest.KeySize]byte{}
	s.proc = procfs{root: cfg.Proc}
	s.files = files.New(cfg.User)
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
		s.run(s.reapAll)
	}
	if cfg.Init && cfg.Memory > 0 {
		s.memory.begin(cfg.Memory, cfg.RootMemory)
		s.run(s.watchMemory)
	}
	if cfg.Lifeline != nil {
		s.run(func() { s.watchLifeline(cfg.Lifeline) })
	}
	return s, nil
}

// run runs f on a goroutine that Close waits for. After Close it only returns false.
func (s *Server) run(f func()) bool {
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

// Close ends the server and everything it has started, and waits for that. For tests, and for a guest that is not pid
// 1.
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
	s.files.Close()
	return nil
}
