package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// moment is the phase in which a server is killed.
type moment int

const (
	underLoad moment = iota
	starting         // while it removes what its predecessor left
	draining         // after SIGTERM
	moments
)

func (m moment) String() string {
	return [...]string{"under load", "while starting", "while draining"}[m]
}

const (
	longestLoad  = 400 * time.Millisecond // from the first request to the kill
	longestStart = 30 * time.Millisecond  // from the start of the process
	longestDrain = 50 * time.Millisecond  // from SIGTERM

	// recoverTimeout is how long after its start a server may take to clean up.
	recoverTimeout = 10 * time.Second
	checkPoll      = 20 * time.Millisecond

	restartEvery = 10 // rounds between starts with nothing to clean up
	pairEvery    = 7  // rounds between concurrent starts of two servers
)

// tormentor kills servers.
type tormentor struct {
	config
	witness *witness
	random  *rand.Rand

	dead    []liveserver.Instance // killed servers, whose traces must disappear
	last    moment
	counts  map[moment]int
	orphans int
	slowest time.Duration
}

func (t *tormentor) chooseMoment() moment {
	switch n := t.random.IntN(10); {
	case n < 7:
		return underLoad
	case n < 8:
		return starting
	default:
		return draining
	}
}

// upTo returns a random duration, biased to short ones: most races happen early.
func (t *tormentor) upTo(most time.Duration) time.Duration {
	x := t.random.Float64()
	return time.Duration(x * x * float64(most))
}

// round kills one server and lets the next one clean up.
func (t *tormentor) round(ctx context.Context, i int) error {
	t.last = t.chooseMoment()
	t.counts[t.last]++
	var err error
	if t.last == starting {
		err = t.killStarting(ctx)
	} else {
		err = t.killBusy(ctx)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	successors, err := t.startSuccessors(ctx, i)
	for _, s := range successors {
		defer s.Kill() // after a failure; without effect on a stopped server
	}
	if err != nil {
		return err
	}
	if err := t.awaitClean(ctx, successors, began); err != nil {
		return err
	}
	for _, s := range successors {
		if err := checkRun(ctx, s); err != nil {
			return fmt.Errorf("a run after the start: %w", err)
		}
	}
	if i%restartEvery == restartEvery-1 {
		if err := t.checkRestart(ctx, successors); err != nil {
			return fmt.Errorf("a start with nothing to clean up: %w", err)
		}
	}
	for _, s := range successors {
		if err := s.Stop(); err != nil {
			return fmt.Errorf("the successor's end: %w", err)
		}
	}
	return t.witness.check()
}

// killStarting kills a server that has just started, perhaps in the middle of its clean-up.
func (t *tormentor) killStarting(ctx context.Context) error {
	if err := t.killBusy(ctx); err != nil { // leaves something to remove
		return err
	}
	before := names(liveserver.Instances(t.runDir))
	s, err := liveserver.Launch(t.server())
	if err != nil {
		return err
	}
	time.Sleep(t.upTo(longestStart))
	s.Kill()
	// InstanceOf needs a living server, so look for a new instance whose lock is free.
	for _, in := range liveserver.Instances(t.runDir) {
		if !slices.Contains(before, in.Name) && !in.Held() {
			t.dead = append(t.dead, in)
		}
	}
	return nil
}

// killBusy keeps a server busy and kills it.
func (t *tormentor) killBusy(ctx context.Context) error {
	s, err := liveserver.Start(ctx, t.server())
	if err != nil {
		return err
	}
	defer s.Kill()
	load := startLoad(ctx, s, t.clients, t.random.Uint64())
	time.Sleep(t.upTo(longestLoad))
	t.remember(s)
	load.dying.Store(true)
	if t.last == draining {
		s.Terminate()
		time.Sleep(t.upTo(longestDrain))
	}
	s.Kill()
	return load.wait()
}

// remember records a server's instance before the server dies. A server without sandboxes has none.
func (t *tormentor) remember(s *liveserver.Server) {
	in, err := liveserver.InstanceOf(t.runDir, s.PID())
	if err != nil {
		return
	}
	t.orphans += len(in.Boxes())
	t.dead = append(t.dead, in)
}

// startSuccessors starts the server that cleans up, sometimes two at the same moment.
func (t *tormentor) startSuccessors(ctx context.Context, i int) ([]*liveserver.Server, error) {
	n := 1
	if i%pairEvery == pairEvery-1 {
		n = 2
	}
	var started []*liveserver.Server
	for range n {
		s, err := liveserver.Launch(t.server())
		if err != nil {
			return started, err
		}
		started = append(started, s)
	}
	for _, s := range started {
		if err := s.AwaitReady(ctx); err != nil {
			return started, err
		}
	}
	return started, nil
}

// awaitClean waits until no trace of any killed server remains.
func (t *tormentor) awaitClean(ctx context.Context, servers []*liveserver.Server, began time.Time) error {
	alive := []int{t.witness.server.PID()}
	for _, s := range servers {
		alive = append(alive, s.PID())
	}
	for {
		left, err := leftOf(t.dead, t.runDir, alive)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if len(left) == 0 {
			t.slowest = max(t.slowest, took)
			t.dead = nil
			return nil
		}
		if took > recoverTimeout || ctx.Err() != nil {
			for _, s := range servers {
				left = append(left, fmt.Sprintf("output of the server: %q", s.Output()))
			}
			return fmt.Errorf("traces remain %v after the start:\n%s",
				took.Round(time.Millisecond), strings.Join(left, "\n"))
		}
		time.Sleep(checkPoll)
	}
}

// checkRestart starts a server with nothing to clean up, and checks that it leaves living servers alone.
func (t *tormentor) checkRestart(ctx context.Context, alive []*liveserver.Server) error {
	mine := []liveserver.Instance{t.witness.instance}
	for _, s := range alive {
		if in, err := liveserver.InstanceOf(t.runDir, s.PID()); err == nil {
			mine = append(mine, in)
		}
	}
	s, err := liveserver.Start(ctx, t.server())
	if err != nil {
		return err
	}
	defer s.Kill()
	if err := s.Stop(); err != nil {
		return err
	}
	there := names(liveserver.Instances(t.runDir))
	for _, in := range mine {
		if !slices.Contains(there, in.Name) {
			return fmt.Errorf("the new server removed the instance %s of a living server", in.Name)
		}
	}
	return nil
}

func names(all []liveserver.Instance) []string {
	var list []string
	for _, in := range all {
		list = append(list, in.Name)
	}
	return list
}

// finish checks for traces again while only the witness lives, and after its end.
func (t *tormentor) finish(ctx context.Context) error {
	if err := t.awaitClean(ctx, nil, time.Now()); err != nil {
		return err
	}
	t.dead = append(t.dead, t.witness.instance)
	if err := t.witness.stop(); err != nil {
		return err
	}
	left, err := leftOf(t.dead, t.runDir, nil)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("traces of the witness remain after its orderly end: %v", left)
	}
	stray, err := os.ReadDir(t.temp)
	if err != nil {
		return err
	}
	if len(stray) > 0 {
		return fmt.Errorf("temporary files remain: %v", stray)
	}
	return nil
}
