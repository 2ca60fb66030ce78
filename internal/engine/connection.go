package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of reaching a guest.
const (
	redialTimeout = 10 * time.Second      // for a new connection while the box lives
	redialPause   = 50 * time.Millisecond // before another attempt, and for the backend to report the end of a box
	maxAttempts   = 5                     // of one call, each on a new connection
)

// connection is the one connection of a sandbox to its guest. Runs, contexts, files and ports share it.
type connection struct {
	dialing chan struct{} // holds a value while a new connection is made
	dialed  time.Time     // when the last attempt ended; dialing guards it

	mu     sync.Mutex // guards all below
	client *client.Client
	closed bool
}

// current returns the last connection, which may be broken; nil before the first.
func (c *connection) current() *client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// set replaces the connection. It reports false, and closes the new one, if the sandbox needs none any more.
func (c *connection) set(next *client.Client) bool {
	c.mu.Lock()
	old, closed := c.client, c.closed
	if !closed {
		c.client = next
	}
	c.mu.Unlock()
	if closed {
		old = next
	}
	if old != nil {
		_ = old.Close() // it is broken, or not needed
	}
	return !closed
}

// close closes the connection for good.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	last := c.client
	c.mu.Unlock()
	if last != nil {
		_ = last.Close() // an error is expected
	}
}

func isOpen(c *client.Client) bool {
	if c == nil {
		return false
	}
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

// connect returns the connection to the guest. If it broke, connect makes a new one, redialPause after the last: a
// hostile guest may end each connection at once. The first connection gets one attempt. An error whose chain has an
// *endedError means that the box has ended.
func (s *Sandbox) connect(ctx context.Context) (*client.Client, error) {
	if c := s.guest.current(); isOpen(c) {
		return c, nil
	}
	select {
	case s.guest.dialing <- struct{}{}:
		defer func() { <-s.guest.dialing }()
	case <-ctx.Done():
		return nil, dialError(context.Cause(ctx))
	}
	last := s.guest.current()
	if isOpen(last) { // another call made it
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, redialTimeout)
	defer cancel()
	for {
		if last != nil && !pauseUntil(ctx, s.guest.dialed.Add(redialPause)) {
			return nil, dialError(context.Cause(ctx))
		}
		c, err := s.dial(ctx)
		s.guest.dialed = time.Now()
		if err == nil || last == nil {
			return c, err
		}
		if err := s.Ended(); err != nil {
			return nil, err
		}
		if reason, ended := s.boxEnded(); ended {
			return nil, dialError(&endedError{reason})
		}
		if ctx.Err() != nil {
			return nil, dialError(err)
		}
	}
}

// pauseUntil waits until a time. It reports false if ctx ended first.
func pauseUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Sandbox) dial(ctx context.Context) (*client.Client, error) {
	conn, err := s.box.Dial(ctx)
	if err != nil {
		return nil, dialError(err)
	}
	c, err := client.New(ctx, conn, s.box.GuestKey())
	if err != nil {
		return nil, err
	}
	if !s.guest.set(c) {
		return nil, dialError(errors.New("the sandbox has ended"))
	}
	return c, nil
}

func dialError(err error) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "dial the guest", Err: err}
}

// call calls the guest. If the connection breaks, it calls again on a new one, so f must be safe to repeat.
func (s *Sandbox) call(ctx context.Context, f func(*client.Client) error) error {
	for attempt := 1; ; attempt++ {
		c, err := s.connect(ctx)
		if err != nil {
			return err
		}
		if err = f(c); err == nil || isOpen(c) || ctx.Err() != nil || attempt == maxAttempts {
			return err
		}
	}
}

// persist calls as call does, until the guest answers or ctx ends.
func (s *Sandbox) persist(ctx context.Context, f func(*client.Client) error) error {
	for {
		err := s.call(ctx, f)
		if sandbox.KindOf(err) != sandbox.Unavailable || !pauseUntil(ctx, time.Now().Add(redialPause)) {
			return err
		}
	}
}

// startProcess starts a process. A process that had started when the connection broke is attached to. repeated reports
// whether an earlier server may have requested the start.
func (s *Sandbox) startProcess(ctx context.Context, m guest.Start, repeated bool) (p *client.Process, err error) {
	err = s.call(ctx, func(c *client.Client) (err error) {
		p, err = c.Start(ctx, m)
		if repeated {
			p, err = s.awaitStart(ctx, c, m, p, err)
		}
		repeated = true
		return err
	})
	return p, err
}

// awaitStart returns the process of a repeated Start. If the guest is still starting it for the first one, awaitStart
// waits: until then the guest finds no such process.
func (s *Sandbox) awaitStart(ctx context.Context, c *client.Client, m guest.Start, p *client.Process, err error) (
	*client.Process, error) {
	for end := time.Now().Add(killTimeout); sandbox.KindOf(err) == sandbox.Exists; {
		found := c.Ack(ctx, guest.Ack{ID: m.ID}) // of no output
		if found == nil {
			return c.Attach(ctx, guest.Attach{ID: m.ID})
		}
		if sandbox.KindOf(found) != sandbox.NotFound {
			return nil, found
		}
		if time.Now().After(end) || !pauseUntil(ctx, time.Now().Add(redialPause)) {
			return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "start",
				Msg: "the guest did not finish the start"}
		}
		p, err = c.Start(ctx, m) // the first may have failed
	}
	return p, err
}

// attach follows a process from the given offsets.
func (s *Sandbox) attach(ctx context.Context, at guest.Attach) (p *client.Process, err error) {
	err = s.call(ctx, func(c *client.Client) (err error) {
		p, err = c.Attach(ctx, at)
		return err
	})
	return p, err
}

// signal sends a signal, over as many connections as that needs within killTimeout. Its effect shows in the exit
// record.
func (s *Sandbox) signal(ctx context.Context, m guest.Signal) {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	_ = s.persist(ctx, func(c *client.Client) error { return c.Signal(ctx, m) })
}

// forgetProcess lets the guest drop the record of a process that has ended. The records of a one-shot sandbox end with
// it.
func (s *Sandbox) forgetProcess(id sandbox.ID) {
	if s.oneShot {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	err := s.call(ctx, func(c *client.Client) error { return c.Ack(ctx, guest.Ack{ID: string(id), Exit: true}) })
	if err != nil && s.life.Err() == nil {
		s.engine.log.Debug("a guest did not drop the record of a process", "sandbox", s.id, "process", id, "err", err)
	}
}

// leaseShare is how often a lease is renewed while it lasts, so that it survives two failures.
const leaseShare = 3

// watch renews the guest's lease, if it has one, and keeps a connection to it, until the sandbox ends. If the box has
// ended, it ends the sandbox.
func (s *Sandbox) watch() {
	lease := s.spec().Lifetime.GuestLease()
	renew := time.NewTicker(lease / leaseShare)
	defer renew.Stop()
	if !s.leased() {
		renew.Stop()
	}
	for {
		select {
		case <-s.life.Done():
			return
		case <-renew.C:
			s.renew(lease)
		case <-s.guest.current().Done():
			_, err := s.connect(s.life)
			if err == nil {
				continue
			}
			if s.life.Err() == nil {
				reason := "its guest stopped answering: " + err.Error()
				var ended *endedError
				if errors.As(err, &ended) {
					reason = ended.reason
				}
				s.endAside(reason)
			}
			return
		}
	}
}

func (s *Sandbox) renew(lease time.Duration) {
	ctx, cancel := context.WithTimeout(s.life, lease/leaseShare)
	defer cancel()
	err := s.call(ctx, func(c *client.Client) error { return c.Lease(ctx, lease) })
	if err != nil && s.life.Err() == nil {
		s.engine.log.Warn("could not renew the lease of a sandbox", "sandbox", s.id, "err", err)
	}
}

// boxEnded asks the backend whether and how the box ended.
func (s *Sandbox) boxEnded() (reason string, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), redialPause)
	defer cancel()
	end, err := s.box.Wait(ctx)
	if err != nil {
		return "", false
	}
	usage, err := s.box.Usage(ctx)
	if err == nil && usage.OOMKills > 0 && end.Cause != sandbox.EndClosed {
		return "the kernel ended it at its memory limit of " + sandbox.FormatBytes(s.spec().Limits.MemoryBytes), true
	}
	switch end.Cause {
	case sandbox.EndGuest:
		return "its guest ended: no server renewed its lease in time, or a program in it asked for that", true
	case sandbox.EndClosed:
		return reasonRemoved, true
	}
	return "it was killed from outside", true
}

// stat describes a file; of a symbolic link, its target.
func (s *Sandbox) stat(ctx context.Context, path string) (f guest.FileInfo, err error) {
	err = s.call(ctx, func(c *client.Client) (err error) {
		f, err = c.Stat(ctx, guest.Stat{Path: path, Follow: true})
		return err
	})
	return f, err
}

// listDir passes at most limit entries below a folder to each, for a hint: a broken connection ends it.
func (s *Sandbox) listDir(ctx context.Context, path string, limit uint32, each func(guest.FileInfo) error) (
	more bool, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	return c.ListDir(ctx, guest.ListDir{Path: path, Depth: plan.MaxDepth, Limit: limit}, each)
}

// killAll ends every process in the sandbox except the guest.
func (s *Sandbox) killAll(ctx context.Context) error {
	return s.call(ctx, func(c *client.Client) error { return c.KillAll(ctx) })
}
