package engine_test

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestUsageApart: a run is not charged for the one just before it.
func TestUsageApart(t *testing.T) {
	rig := newRig(t, engine.Config{})
	reads := int64(0)
	rig.usage = func(u *sandbox.Usage) {
		// each reading finds one more process killed, so one reading lies between start and end
		reads++
		*u = sandbox.Usage{OOMKills: reads}
	}
	s := rig.make(t, engine.Create{})
	for range 3 {
		if r := do(t, s, command("true")); r.Usage.OOMKills != 1 {
			t.Errorf("charged for %d", r.Usage.OOMKills)
		}
	}
}
