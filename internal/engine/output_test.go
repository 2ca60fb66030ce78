package engine

import (
	"math"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestOutputFarAway: where gaps are allowed, a fallen guest names any offset.
func TestOutputFarAway(t *testing.T) {
	for _, offset := range []uint64{math.MaxInt64, 1 << 63, math.MaxUint64 - 1} {
		o := newOutput(100, func(sandbox.Stream, []byte) {})
		o.gaps = true
		if err := o.take(guest.Output{Stream: sandbox.Stdout, Offset: offset, Data: []byte("x")}); err == nil ||
			o.stdout.total != 0 {
			t.Errorf("offset %d: %v, %d bytes in all", offset, err, o.stdout.total)
		}
	}
}

// TestOutputKeptInPart: a background run keeps little of a large output, passes all of it on, and counts what is past
// the limit.
func TestOutputKeptInPart(t *testing.T) {
	const limit = 4 << 20
	passed := 0
	o := newOutput(limit, func(_ sandbox.Stream, data []byte) { passed += len(data) })
	o.keepPart()
	for i := range uint64(5) {
		if err := o.take(guest.Output{Stream: sandbox.Stdout, Offset: i << 20, Data: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	c := o.stdout.captured()
	if kept := len(c.Head) + len(c.Tail); passed != limit || kept > backgroundKept || o.beyond(&c, o.stdout) != 1<<20 {
		t.Errorf("%d bytes passed on, %d kept, %d beyond", passed, kept, o.beyond(&c, o.stdout))
	}
}
