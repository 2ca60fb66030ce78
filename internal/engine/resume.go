package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of taking over the sandboxes of an earlier server.
const (
	resumeTimeout = 30 * time.Second // for one attempt at one sandbox
	resumeAtOnce  = 8

	// DefaultResumeWait is for LivingConfig.ResumeWait. The guests of busy sandboxes answer late, and nobody is served
	// meanwhile.
	DefaultResumeWait = 5 * time.Second

	resumePause = 200 * time.Millisecond // before another attempt at a box that another process looks at

	leastRetry = time.Second // after a failed attempt; it doubles
	mostRetry  = time.Minute
)

// Resume takes over the living sandboxes of an earlier server, by the records that it left. It returns the records of
// those that have ended, with the reason; asking for such a sandbox reports the same. One that cannot be taken over
// within LivingConfig.ResumeWait stays on record, is Unavailable, and is retried. Resume removes what is left of
// sandboxes without a record, except those whose records cannot be read. Call Resume before any other sandbox is made.
func (e *Engine) Resume(ctx context.Context, records []sandbox.Record, unread ...sandbox.ID) (gone []sandbox.Record) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards ended
	var ended []sandbox.Record
	var takeovers []*takeover
	places := make(chan struct{}, resumeAtOnce)
	first, cancel := context.WithTimeout(ctx, cmp.Or(e.config.Living.ResumeWait, DefaultResumeWait))
	defer cancel()
	for _, record := range records {
		if !record.Ended.IsZero() {
			e.living.mu.Lock()
			e.living.remember(record)
			e.living.mu.Unlock()
			continue
		}
		var b sandbox.Backend
		if i := slices.IndexFunc(e.config.Backends,
			func(b sandbox.Backend) bool { return b.Name() == record.Backend }); i >= 0 {
			b = e.config.Backends[i]
		}
		record.Spec.Network.Ceiling = e.rulesOf(record.Owner).Ceiling // that of an earlier server no longer counts
		r := &takeover{sandbox: newSandbox(e, b, record), answered: time.Now(), left: map[string]guest.ProcessInfo{}}
		r.life, r.sandbox.abandon = context.WithCancel(e.stop)
		e.living.mu.Lock()
		e.living.enter(r.sandbox)
		e.living.mu.Unlock()
		takeovers = append(takeovers, r)
		all.Add(1)
		e.endings.Go(func() {
			defer all.Done()
			places <- struct{}{}
			defer func() { <-places }()
			if r.attempt(first) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, r.sandbox.record)
				return
			}
			r.sandbox.warnOfCeiling()
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }() // ends with the attempts
	select {
	case <-done:
	case <-first.Done(): // the guests of busy sandboxes answer each of many calls late
		for _, r := range takeovers {
			r.leavePending()
		}
	}
	e.sweep(ctx, unread)
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(ended)
}

// attempt makes the first attempt, which is retried if need be. It reports whether the sandbox has ended.
func (r *takeover) attempt(ctx context.Context) (ended bool) {
	s := r.sandbox
	err := r.try(ctx)
	if err == nil || r.done(err) {
		r.settle(nil)
		return err != nil
	}
	s.engine.log.Warn("could not take over a sandbox; it is retried", "sandbox", s.id, "err", err)
	r.settle(err)
	s.engine.endings.Go(r.retry)
	return false
}

// settle ends the first attempt. An error leaves the sandbox to further ones.
func (r *takeover) settle(pending error) {
	r.sandbox.mu.Lock()
	defer r.sandbox.mu.Unlock()
	r.settled, r.sandbox.pending = true, pending
}

// leavePending makes the sandbox unavailable until its first attempt ends.
func (r *takeover) leavePending() {
	r.sandbox.mu.Lock()
	defer r.sandbox.mu.Unlock()
	if !r.settled {
		r.sandbox.pending = errBusyTakeover
	}
}

var errBusyTakeover = errors.New("the server is still taking it over")

// warnOfCeiling logs if this server opens less than the rules of the sandbox. With many rules that takes a tenth of a
// second, for which no other takeover waits.
func (s *Sandbox) warnOfCeiling() {
	policy, rules := s.spec().Network, s.engine.rulesOf(s.owner)
	if err := rules.CheckNetwork(&policy); err != nil {
		s.engine.log.Warn("this server opens less than the network policy of a sandbox", "sandbox", s.id, "err", err)
	}
}

// takeover takes over one sandbox.
type takeover struct {
	sandbox  *Sandbox
	life     context.Context              // ends with the engine, and when the sandbox is removed
	answered time.Time                    // when the guest last answered; at first, when the takeover began
	entries  []eventlog.Entry             // of its logs
	begun    []begun                      // code in contexts, as the logs have it
	kept     bool                         // its network is logged in its folder
	settled  bool                         // the first attempt has ended; the sandbox's mu guards it
	left     map[string]guest.ProcessInfo // processes that no run and no context has claimed yet
}

// errBoxEnded is an end that the backend reports.
type errBoxEnded struct{ reason string }

func (e errBoxEnded) Error() string { return e.reason }

// try makes one attempt, and makes the sandbox available if it succeeds.
func (r *takeover) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	if err := r.reach(ctx); err != nil {
		if s := r.sandbox; s.box != nil {
			if reason, ended := s.boxEnded(); ended {
				return errBoxEnded{reason}
			}
		}
		return err
	}
	r.restore(ctx)
	return nil
}

// done reports whether an error is the end of the sandbox, and removes what is left of one that has ended. A guest ends
// its sandbox when no server renews the lease: one that has not answered for so long is dead or hostile.
func (r *takeover) done(err error) bool {
	s := r.sandbox
	life := s.record.Spec.Lifetime
	silent := time.Since(r.answered) > life.GuestLease()
	var ended errBoxEnded
	switch {
	case errors.As(err, &ended), s.box == nil && sandbox.KindOf(err) == sandbox.NotFound:
	case silent && s.box != nil:
		err = fmt.Errorf("its guest did not answer for %s: %w", life.GuestLease(), err)
	case silent && !life.EndsAt.IsZero() && time.Now().After(life.EndsAt):
		err = fmt.Errorf("it was out of reach until its end time and its lease had passed: %w", err)
		r.findBox()
	default:
		return false
	}
	r.end("it did not outlive a restart of the server: " + err.Error())
	return true
}

// end removes what is left of the sandbox.
func (r *takeover) end(reason string) {
	s := r.sandbox
	s.abandon()
	s.failed = errors.New(reason)
	s.endLife(&endedError{reason})
	if s.logs == nil {
		s.logs, _, _ = s.openLogs()
	}
	if s.box != nil {
		s.closeBox()
	}
	if s.logs != nil {
		_ = s.removeLogs() // a failure costs only space
	}
	s.mu.Lock()
	s.record.Ended, s.record.Reason = time.Now(), reason
	record := s.record
	s.mu.Unlock()
	if err := errors.Join(s.engine.removePackages(s.id), s.saveEnd()); err != nil { // before anybody learns of it
		s.engine.log.Warn("could not record the end of a sandbox", "sandbox", s.id, "err", err)
	}
	s.engine.living.leave(s, record)
	o := s.observation(SandboxEnded)
	o.Reason = reason
	s.engine.observe(o)
	close(s.made)
}

// retry repeats the attempt until it succeeds, or the sandbox has ended or is removed. An engine that closes leaves it
// to the next one.
func (r *takeover) retry() {
	s := r.sandbox
	for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
		select {
		case <-time.After(pause):
		case <-r.life.Done():
			if s.engine.stop.Err() == nil {
				r.findBox()
				r.end(reasonRemoved)
				return
			}
			s.failed = s.pendingReason()
			s.endLife(errDetached)
			if s.box != nil {
				s.detachBox()
			}
			close(s.made)
			return
		}
		err := r.try(r.life)
		if err == nil || r.done(err) {
			s.setPending(nil)
			return
		}
		s.setPending(err)
	}
}

// findBox reattaches the box of a sandbox that ends: it may be within reach by now. Otherwise removeLogs tries again.
func (r *takeover) findBox() {
	s := r.sandbox
	if s.box != nil || s.backend == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.engine.stop, killTimeout)
	defer cancel()
	box, err := s.backend.Reattach(ctx, s.id)
	if err != nil {
		end := s.engine.enderOf(s.id)
		s.unclosed = func() error { return end(s.engine.stop) }
		return
	}
	s.box = box
	s.engine.boxes.Add(1)
}

// pendingReason returns why the sandbox was not taken over from an earlier server yet, or nil.
func (s *Sandbox) pendingReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

func (s *Sandbox) setPending(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = err
}

// reach makes the steps that may fail: it reattaches the box, connects to its guest and opens its logs. Another call
// continues after the last success.
func (r *takeover) reach(ctx context.Context) (err error) {
	s := r.sandbox
	if s.backend == nil {
		return fmt.Errorf("this server has no backend %s", s.record.Backend)
	}
	for s.box == nil {
		box, err := s.backend.Reattach(ctx, s.id)
		switch {
		case err == nil:
			s.box = box
			s.engine.boxes.Add(1)
			s.restoreLimits()
		case sandbox.KindOf(err) != sandbox.Busy || ctx.Err() != nil:
			return err
		default:
			time.Sleep(resumePause)
		}
	}
	var processes []guest.ProcessInfo
	err = s.call(ctx, func(c *client.Client) (err error) {
		if err = c.Lease(ctx, s.record.Spec.Lifetime.GuestLease()); err == nil {
			processes, err = c.List(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.answered = time.Now()
	if s.passage == nil {
		if err := s.openNetwork(ctx); err != nil {
			return err
		}
	}
	for _, p := range processes {
		if p.ID != startProcess {
			r.left[p.ID] = p
		}
	}
	if s.logs == nil {
		if s.logs, r.entries, err = s.openLogs(); err != nil {
			return err
		}
	}
	if s.passage != nil && !r.kept {
		if err := s.passage.Keep(s.logs.Dir()); err != nil {
			s.closeNetwork() // the next attempt opens another: Keep is called at most once
			s.passage = nil
			return err
		}
		r.kept = true
	}
	return nil
}
