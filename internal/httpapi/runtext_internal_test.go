package httpapi

import (
	"runtime"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestTakeOutput: of a long stream its start and its end are kept, in memory and work that do not grow with the number
// of its events.
func TestTakeOutput(t *testing.T) {
	piece := make([]byte, 100_000)
	for i := range piece {
		piece[i] = byte(i)
	}
	var c sandbox.Captured
	for range 10 {
		takeOutput(&c, engine.Event{Data: piece})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range piece {
		takeOutput(&c, engine.Event{Data: piece[i : i+1]})
	}
	cutTail(&c)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*textOutput {
		t.Errorf("%d bytes were allocated", got)
	}
	end := len(c.Tail) - len(piece)
	if len(c.Head) != textOutput || len(c.Tail) != textOutput || string(c.Tail[end:]) != string(piece) ||
		c.Dropped != int64(11*len(piece)-2*textOutput) {
		t.Errorf("%d bytes, then %d, and %d were dropped", len(c.Head), len(c.Tail), c.Dropped)
	}
}
