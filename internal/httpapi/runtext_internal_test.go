package httpapi

import (
	"fmt"
	"runtime"
	"strings"
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

// TestTakeResults: of many values with many forms, and of a long exception, little is kept.
func TestTakeResults(t *testing.T) {
	large := strings.Repeat("x", textValue)
	var v sandbox.Value
	for i := range 30 {
		v.Forms = append(v.Forms, sandbox.Form{Type: fmt.Sprintf("application/vnd.a%d+json", i), Data: []byte(large)})
	}
	v.Forms = append(v.Forms, sandbox.Form{Type: "text/plain", Data: []byte("plain" + large)})
	r := &sandbox.Result{}
	for range textValues + 1 {
		takeEvent(r, engine.Event{Result: &v})
	}
	takeEvent(r, engine.Event{Exception: &sandbox.Exception{Name: large + large, Value: large + large,
		Traceback: large + large}})
	size := len(r.Exception.Name) + len(r.Exception.Value) + len(r.Exception.Traceback)
	for _, kept := range r.Results {
		for _, form := range kept.Forms {
			size += len(form.Data)
		}
	}
	first := string(r.Results[0].Forms[0].Data)
	if size > textHeld/2 || len(r.Results) != textValues || !strings.HasPrefix(first, "plain") {
		t.Errorf("%d bytes of %d values", size, len(r.Results))
	}
}
