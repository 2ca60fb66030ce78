package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// hanging is a backend whose probe never answers.
type hanging struct{ sandbox.Backend }

func (hanging) Name() string { return "hanging" }

func (hanging) Probe(ctx context.Context) (sandbox.Posture, error) {
	<-ctx.Done()
	return sandbox.Posture{}, ctx.Err()
}

func (hanging) Reap(context.Context) error { return nil }
func (hanging) Close() error               { return nil }

// TestProbeIsBounded: a backend whose probe hangs does not work here.
func TestProbeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{hanging{}}})
		if err != nil {
			t.Fatal(err)
		}
		probed := e.Probe(context.Background())
		if len(probed) != 1 || !errors.Is(probed[0].Err, context.DeadlineExceeded) || probed[0].Usable() {
			t.Errorf("it says %+v", probed)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// asked is a backend that works at once or, while it is slow, not within its caller's time.
type asked struct {
	hanging
	name   string
	kernel sandbox.Kernel
	slow   atomic.Bool
	fails  error // of the probe, if it is not slow
}

func (b *asked) Name() string { return b.name }

func (b *asked) Probe(ctx context.Context) (sandbox.Posture, error) {
	if b.slow.Load() {
		_, err := b.hanging.Probe(ctx)
		return sandbox.Posture{Backend: b.name, Kernel: b.kernel}, err
	}
	return sandbox.Posture{Backend: b.name, Kernel: b.kernel, Ready: true}, b.fails
}

// TestAutoTriesAgain: a stronger backend that could not start a process once becomes the default when it can, but no
// later request probes one that cannot work here.
func TestAutoTriesAgain(t *testing.T) {
	for kind, want := range map[sandbox.Kind]string{sandbox.Unavailable: "strong", sandbox.Unsupported: "weak"} {
		synctest.Test(t, func(t *testing.T) {
			weak, strong := &asked{name: "weak", kernel: sandbox.KernelShared},
				&asked{name: "strong", kernel: sandbox.KernelMachine, fails: &sandbox.Error{Kind: kind}}
			e, err := engine.New(engine.Config{Backends: []sandbox.Backend{weak, strong}, Default: engine.Auto})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if p := e.ProbeDefault(t.Context()); p.Backend != "weak" {
				t.Errorf("%s: while it fails, the default is %q", kind, p.Backend)
			}
			strong.fails = nil
			time.Sleep(2 * time.Minute)
			if p := e.ProbeDefault(t.Context()); p.Backend != "weak" {
				t.Errorf("%s: while it is tried again, the default is %q", kind, p.Backend)
			}
			synctest.Wait()
			if p := e.ProbeDefault(t.Context()); p.Backend != want {
				t.Errorf("%s: then the default is %q", kind, p.Backend)
			}
		})
	}
}

// TestAutoIsNotChosenInHaste: a caller whose time is up during the probe does not fix a weaker choice for later
// callers.
func TestAutoIsNotChosenInHaste(t *testing.T) {
	weak, strong := &asked{name: "weak", kernel: sandbox.KernelShared},
		&asked{name: "strong", kernel: sandbox.KernelMachine}
	strong.slow.Store(true)
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{weak, strong}, Default: engine.Auto})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if p := e.ProbeDefault(ctx); !errors.Is(p.Err, context.DeadlineExceeded) {
		t.Errorf("without an answer in time it is %+v", p)
	}
	strong.slow.Store(false)
	if p := e.ProbeDefault(context.Background()); p.Err != nil || p.Backend != "strong" {
		t.Errorf("afterwards it is %q, %v", p.Backend, p.Err)
	}
}

// TestAutoWaitsForTheStrongest: a backend that is slow while the host is busy does not lose its place to a weaker one.
// Auto chooses only from those that the operator allows.
func TestAutoWaitsForTheStrongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weak, strong := &asked{name: "weak", kernel: sandbox.KernelShared},
			&asked{name: "strong", kernel: sandbox.KernelMachine}
		strong.slow.Store(true)
		of := func(allowed ...string) *engine.Engine {
			e, err := engine.New(engine.Config{Backends: []sandbox.Backend{weak, strong}, Default: engine.Auto,
				Allowed: allowed})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		for _, allowed := range [][]string{nil, {engine.Auto}, {"weak", engine.Auto}, {"weak", "strong"}} {
			e := of(allowed...)
			if p := e.ProbeOf(t.Context(), "strong"); !errors.Is(p.Err, context.DeadlineExceeded) {
				t.Errorf("%q: %+v", allowed, p)
			}
			if p := e.ProbeDefault(t.Context()); p.Backend != "strong" {
				t.Errorf("%q: while it is slow, the default is %q, %v", allowed, p.Backend, p.Err)
			}
			e.Close()
		}
		e := of("weak")
		defer e.Close()
		if p := e.ProbeDefault(t.Context()); p.Backend != "weak" || p.Err != nil {
			t.Errorf("of the weak one alone, the default is %q, %v", p.Backend, p.Err)
		}
		if name, ok := e.Choice(e.Probe(t.Context())); name != "weak" || !ok {
			t.Errorf("of the weak one alone, the choice is %q", name)
		}
		if p := e.ProbeOf(t.Context(), "strong"); sandbox.KindOf(p.Err) != sandbox.Invalid {
			t.Errorf("one that is not allowed: %v", p.Err)
		}
		posture := sandbox.Posture{Kernel: sandbox.KernelMachine}
		equals := []engine.Probed{{Backend: "slow", Posture: posture, Err: context.DeadlineExceeded},
			{Backend: "usable", Posture: posture}}
		if name, ok := engine.Strongest(equals); name != "usable" || !ok {
			t.Errorf("of equals, the choice is %q", name)
		}
	})
}

// TestAutoRefusesCheaply: requests for which no backend can be chosen do not probe all of them each; one that is fixed
// is found.
func TestAutoRefusesCheaply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes, works := 0, false
		b := &faults{Backend: hanging{}, probe: func() (sandbox.Posture, error) {
			probes++
			if !works {
				return sandbox.Posture{}, errors.New("not yet")
			}
			return sandbox.Posture{Kernel: sandbox.KernelMachine, Ready: true}, nil
		}}
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{b}, Default: engine.Auto})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for range 10 {
			if _, err := e.Run(t.Context(), sh("true")); sandbox.KindOf(err) != sandbox.Unsupported {
				t.Fatalf("it says %v", err)
			}
		}
		if probes != 1 {
			t.Errorf("10 refusals took %d probes", probes)
		}
		works = true
		time.Sleep(time.Minute)
		if plan, err := e.Plan(t.Context(), sh("true")); err != nil || plan.Refusal != nil {
			t.Errorf("afterwards: %v, %+v", err, plan)
		}
	})
}
