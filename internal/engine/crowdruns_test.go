package engine_test

import (
	"sync/atomic"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCrowdOfRuns: while few processes are left, a one-shot run of an owner with too many ends with an error. The owner
// gets no new sandbox for a while; others do.
func TestCrowdOfRuns(t *testing.T) {
	r := newRig(t, engine.Config{Slots: 4, Shares: engine.Shares{OwnerSlots: 2},
		Living: engine.LivingConfig{Processes: 1000}})
	var pids atomic.Int64
	pids.Store(900)
	r.usage = func(u *sandbox.Usage) { u.PidsNow = pids.Load() }
	run := sh("sleep 1000")
	run.Owner = "a"
	if result, err := r.Run(within(t), run); sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := r.Run(within(t), run); sandbox.KindOf(err) != sandbox.Busy || sandbox.RetryAfterOf(err) == 0 {
		t.Error(err)
	}
	if _, _, err := r.Engine.Create(within(t), engine.Create{Owner: "a"}); sandbox.KindOf(err) != sandbox.Busy {
		t.Error(err)
	}
	pids.Store(10)
	run.Owner, run.Request.Command = "b", []string{"bash", "-c", "sleep 1.2"}
	if result := r.run(t, run); result.Status != sandbox.StatusSucceeded {
		t.Errorf("with few processes: %v", result.Status)
	}
}
