package engine

import (
	"math"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestOutputFarAway: where gaps are allowed, a fallen guest names any offset.
func TestOutputFarAway(t *testing.T) {
	for _, offset := range []uint64{math.MaxInt64, 1 << 63, math.MaxUint64 - 1} {
		o := newOutput(100, func(sandbox.Stream, []byte) {})
		o.gaps = true
		if err := o.take(guest.Output{Stream: sandbox.Stdout, Offset: offset, Data: []byte("x")}); err == nil || o.stdout.total != 0 {
			t.Errorf("offset %d: %v, %d bytes in all", offset, err, o.stdout.total)
		}
	}
}
