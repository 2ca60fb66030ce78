package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// slowRules is a gate that checks rules only after a takeover has begun.
type slowRules struct {
	openGate
	begun context.Context
}

func (g slowRules) Complete(*sandbox.NetworkPolicy) error {
	<-g.begun.Done()
	return nil
}

// lostBox begins takeovers, which fail.
type lostBox struct {
	noBoxes
	begin func()
}

func (b lostBox) Reattach(context.Context, sandbox.ID) (sandbox.Box, error) {
	b.begin()
	return nil, errors.New("lost")
}

// TestTakeoverBeforeRules: no takeover waits until the rules of networks have been compared with the ceiling.
func TestTakeoverBeforeRules(t *testing.T) {
	begun, begin := context.WithCancel(t.Context())
	b := lostBox{begin: begin}
	e, err := New(Config{Backends: []sandbox.Backend{b}, Gate: slowRules{begun: begun},
		Living: LivingConfig{StateDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	record := sandbox.Record{ID: sandbox.NewID(), Backend: b.Name()}
	record.Spec.Lifetime.Living = true
	record.Spec.Network.Mode = sandbox.NetworkRestricted
	e.Resume(t.Context(), []sandbox.Record{record})
	if begun.Err() == nil {
		t.Error("no takeover")
	}
	e.Close()
}
