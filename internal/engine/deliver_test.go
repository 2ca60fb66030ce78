package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDeliver: while a result is delivered its run holds the slot, and no sandbox any more; what Deliver fails with,
// Run does, and the slot comes back, also from a panic.
func TestDeliver(t *testing.T) {
	r := newRig(t, engine.Config{Slots: 1, Queue: -1})
	failed := errors.New("no room")
	for _, fail := range []func() error{
		func() error { return nil }, func() error { return failed }, func() error { panic("deliver") }} {
		run := sh("echo out")
		run.Deliver = func(result *sandbox.Result) error {
			if string(result.Stdout.Head) != "out\n" || result.Timings.Create == 0 {
				t.Errorf("%+v", result)
			}
			eventually(t, "the end of the box", func() bool { return r.Stats().Live == 0 })
			if _, err := r.Run(within(t), sh("true")); sandbox.KindOf(err) != sandbox.Busy {
				t.Errorf("the slot is free: %v", err)
			}
			return fail()
		}
		result, err := r.Run(within(t), run)
		if (err == nil) != (result != nil) {
			t.Errorf("%v and %v", result, err)
		}
		r.run(t, sh("true"))
	}
	run := sh("true")
	run.Deliver = func(*sandbox.Result) error { return failed }
	if _, err := r.Run(within(t), run); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// never is a Packager whose packages do not come.
type never struct {
	sandbox.Packager
	asked func()
}

func (n never) Supply(ctx context.Context, _ sandbox.PackageNeed, _ sandbox.Worker) (*sandbox.Supply, error) {
	n.asked()
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestCancelPackages: a run that is canceled while it waits for packages ends as canceled.
func TestCancelPackages(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	r := newRig(t, engine.Config{Languages: lang.All(), Packages: never{asked: cancel}})
	asks := engine.OneShot{Request: sandbox.Request{
		Language: "python", Code: []byte("1"), Packages: sandbox.Packages{Auto: true}}}
	if result, err := r.Run(ctx, asks); err != nil || result.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestCloseDuringPackages: so does one whose engine closes, and the end of a living sandbox waits until nothing is
// added to it.
func TestCloseDuringPackages(t *testing.T) {
	asked := make(chan struct{}, 2)
	r := newRig(t, engine.Config{Languages: lang.All(), Packages: never{asked: func() { asked <- struct{}{} }}})
	packages := sandbox.Packages{Requirements: []string{"x"}}
	s := r.make(t, engine.Create{})
	many := sandbox.Packages{Requirements: make([]string, sandbox.MaxRequirements+1)}
	_, err := s.Run(within(t), engine.RunRequest{
		Request: sandbox.Request{Language: "python", Code: []byte("1"), Packages: many}})
	refused(t, "too many packages", err, sandbox.TooLarge, "more than 500")
	added := make(chan error, 1)
	go func() {
		_, err := s.Run(within(t), engine.RunRequest{
			Request: sandbox.Request{Language: "python", Code: []byte("1"), Packages: packages}})
		added <- err
	}()
	<-asked
	if !s.Info().IdleEnds.IsZero() {
		t.Error("it counts as idle meanwhile")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-added; sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("of an ended sandbox: %v", err)
	}
	ran := make(chan *sandbox.Result, 1)
	go func() {
		result, err := r.Run(within(t), engine.OneShot{
			Request: sandbox.Request{Language: "python", Code: []byte("1"), Packages: packages}})
		if err != nil {
			t.Error(err)
		}
		ran <- result
	}()
	<-asked
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if result := <-ran; result == nil || result.Status != sandbox.StatusCanceled {
		t.Errorf("%+v", result)
	}
}

// late is a Packager that needs a step in a sandbox, once it may.
type late struct {
	sandbox.Packager
	asked, may chan struct{}
}

func (l late) Supply(ctx context.Context, _ sandbox.PackageNeed, work sandbox.Worker) (*sandbox.Supply, error) {
	close(l.asked)
	<-l.may
	result, err := work(ctx, sandbox.Work{Command: func(string) []string { return []string{"true"} }})
	if err == nil && result.Status != sandbox.StatusSucceeded {
		err = errors.New("the step ended as " + string(result.Status))
	}
	return &sandbox.Supply{Release: func() {}}, err
}

// TestDrainDuringPackages: a run that was accepted goes on while a server drains, with the steps for its packages; so
// does one in a living sandbox that its client waits for.
func TestDrainDuringPackages(t *testing.T) {
	for _, living := range []bool{false, true} {
		l := late{asked: make(chan struct{}), may: make(chan struct{})}
		r := newRig(t, engine.Config{Languages: lang.All(), Packages: l})
		run := func(asks engine.RunRequest) (*sandbox.Result, error) {
			return r.Run(within(t), engine.OneShot{Request: asks.Request})
		}
		if living {
			s := r.make(t, engine.Create{})
			run = func(asks engine.RunRequest) (*sandbox.Result, error) { return s.Run(within(t), asks) }
		}
		ran := make(chan *sandbox.Result, 1)
		go func() {
			result, err := run(adding("python", "print('ran')", "a"))
			if err != nil {
				t.Error(err)
			}
			ran <- result
		}()
		<-l.asked
		drained := make(chan error)
		go func() { drained <- r.Drain(within(t)) }()
		eventually(t, "the refusal of new runs", func() bool { return r.Stats().Draining })
		if _, err := run(adding("python", "1", "b")); sandbox.KindOf(err) != sandbox.Unavailable {
			t.Errorf("a new run: %v", err)
		}
		close(l.may)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if result := <-ran; result == nil || string(result.Stdout.Head) != "ran\n" {
			t.Errorf("%+v", result)
		}
	}
}

// TestDeliverFromLiving: so it is for a command and for code in a sandbox that goes on.
func TestDeliverFromLiving(t *testing.T) {
	r := newRig(t, engine.Config{Languages: lang.All(), Slots: 1, Queue: -1})
	s := r.make(t, engine.Create{})
	failed := errors.New("no room")
	for _, asks := range []engine.RunRequest{command("echo", "out"), code("bash", "echo out")} {
		for _, fail := range []func() error{
			func() error { return nil }, func() error { return failed }, func() error { panic("deliver") }} {
			asks.Deliver = func(result *sandbox.Result) error {
				if string(result.Stdout.Head) != "out\n" {
					t.Errorf("%+v", result)
				}
				if _, err := s.Run(within(t), command("true")); sandbox.KindOf(err) != sandbox.Busy {
					t.Errorf("the slot is free: %v", err)
				}
				return fail()
			}
			if result, err := s.Run(within(t), asks); (err == nil) != (result != nil) {
				t.Errorf("%v and %v", result, err)
			}
			do(t, s, command("true"))
		}
	}
	asks := command("true")
	asks.Deliver = func(*sandbox.Result) error { return failed }
	if _, err := s.Run(within(t), asks); !errors.Is(err, failed) {
		t.Error(err)
	}
}
