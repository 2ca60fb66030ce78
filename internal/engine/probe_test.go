package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// hanging is a backend whose probe asks something that never answers.
type hanging struct{ sandbox.Backend }

func (hanging) Name() string { return "hanging" }

func (hanging) Probe(ctx context.Context) (sandbox.Posture, error) {
	<-ctx.Done()
	return sandbox.Posture{}, ctx.Err()
}

func (hanging) Recover(context.Context, []sandbox.ID) ([]sandbox.Box, error) { return nil, nil }
func (hanging) Close() error                                                 { return nil }

// TestProbeIsBounded: a backend that hangs is one that does not work here.
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
