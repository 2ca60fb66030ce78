package server

import (
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (s *Server) hello(c *call) error {
	s.mu.Lock()
	m := &guest.Welcome{Version: guest.Version, ID: s.id, Generation: s.generation, Uptime: time.Since(s.spawned)}
	s.mu.Unlock()
	m.Requests = slices.Sorted(maps.Keys(handlers))
	return c.answer(m)
}

func (s *Server) renew(c *call, m *guest.Lease) error {
	if !s.renewLease(m.For) {
		return &guest.Failed{Kind: sandbox.Unavailable, Op: "lease", Msg: "the guest is ending"}
	}
	return c.answer(&guest.Done{})
}

// renewLease sets the lease. A lease that ends makes a one-shot guest a living one. It returns false once the guest is
// ending.
func (s *Server) renewLease(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d > 0 && !s.living {
		s.living = true
		if s.cfg.Promoted != nil {
			s.cfg.Promoted()
		}
	}
	s.setLeaseLocked(d)
	return s.end == ""
}

// setLease ends the guest after d; 0 means never.
func (s *Server) setLease(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLeaseLocked(d)
}

// setLeaseLocked is setLease with mu held.
func (s *Server) setLeaseLocked(d time.Duration) {
	if s.lease != nil {
		s.lease.Stop()
		s.lease = nil
	}
	s.leases++
	if n := s.leases; d > 0 && s.end == "" {
		s.lease = time.AfterFunc(d, func() { s.leaseOver(n) })
	}
}

// leaseOver ends the guest, unless the lease was renewed meanwhile.
func (s *Server) leaseOver(n uint64) {
	s.mu.Lock()
	current := s.leases == n
	s.mu.Unlock()
	if current {
		s.finish(EndLease)
	}
}

// takeLifeline serves a lifeline connection, which replaces the lease that waits for it. A living guest keeps its
// lease.
func (s *Server) takeLifeline(line io.Reader) {
	s.mu.Lock()
	if !s.living {
		s.setLeaseLocked(0)
	}
	s.mu.Unlock()
	s.watchLifeline(line)
}

// watchLifeline ends the guest when the host closes the other end, unless the guest is a living one.
func (s *Server) watchLifeline(line io.Reader) {
	var b [16]byte
	for {
		if _, err := line.Read(b[:]); err != nil {
			if err == io.EOF || !s.isEnded() {
				s.lifelineOver()
			}
			return
		}
	}
}

func (s *Server) lifelineOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.living {
		s.finishLocked(EndLifeline)
	}
}

func (s *Server) shutdown(c *call) error {
	if err := c.answer(&guest.Done{}); err != nil {
		return err
	}
	c.session.Flush() // data already in the connection arrives even after the guest's end
	s.finish(EndShutdown)
	return nil
}

func (s *Server) reborn(c *call, m *guest.Reborn) error {
	if len(m.Key) != guest.KeySize {
		return invalid("reborn", "a key has 32 bytes")
	}
	if err := s.mixEntropy(m.Entropy); err != nil {
		return err
	}
	if s.cfg.OwnClock && !m.Clock.IsZero() {
		tv := unix.NsecToTimeval(m.Clock.UnixNano())
		if err := unix.Settimeofday(&tv); err != nil {
			return failed("set clock", err.(unix.Errno))
		}
	}
	s.mu.Lock()
	copy(s.key[:], m.Key)
	s.id = m.ID
	s.generation++
	s.living = m.Lease > 0 // the restored sandbox may be one-shot, whatever was saved
	s.mu.Unlock()
	clear(m.Key)
	s.closeConns(c.conn)
	keep := make(map[string]bool, len(m.Keep))
	for _, id := range m.Keep {
		keep[id] = true
	}
	s.endAll(func(p *process) bool { return keep[p.id] })
	s.setLease(m.Lease)
	return c.answer(&guest.Done{})
}

// mixEntropy adds bytes to the kernel's entropy: two sandboxes restored from one image then draw different random
// numbers.
func (s *Server) mixEntropy(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	fd, err := unix.Open("/dev/urandom", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("open /dev/urandom", err.(unix.Errno))
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, b); err != nil {
		return failed("mix entropy", err.(unix.Errno))
	}
	clear(b)
	return nil
}
