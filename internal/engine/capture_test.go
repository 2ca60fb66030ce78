package engine

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCapture compares with a plain reading of the rule, over random sizes of cap, pieces and text.
func TestCapture(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + r.IntN(100)
		text := make([]byte, r.IntN(400))
		for i := range text {
			text[i] = 'a' + byte(i%26) // one byte a character, so nothing is cut at the edges
		}
		c := newCapture(int64(limit))
		for rest := text; len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 150))
			c.write(rest[:n])
			rest = rest[n:]
		}
		got := c.captured()
		if len(text) <= limit {
			if !bytes.Equal(got.Head, text) || got.Tail != nil || got.Dropped != 0 {
				t.Fatalf("seed %d: %d bytes under a cap of %d: head %d, tail %d, dropped %d",
					seed, len(text), limit, len(got.Head), len(got.Tail), got.Dropped)
			}
			continue
		}
		head, tail := text[:limit-limit/2], text[len(text)-limit/2:]
		if !bytes.Equal(got.Head, head) || !bytes.Equal(got.Tail, tail) || got.Dropped != int64(len(text)-limit) {
			t.Fatalf("seed %d: cap %d of %d bytes: %q ... %q, dropped %d", seed, limit, len(text), got.Head, got.Tail,
				got.Dropped)
		}
	}
}

// TestCaptureCharacters: a cut never falls inside a character, and what it takes away is counted.
func TestCaptureCharacters(t *testing.T) {
	text := strings.Repeat("aé漢😀", 50)
	for limit := 8; limit < 80; limit++ {
		c := newCapture(int64(limit))
		c.write([]byte(text))
		got := c.captured()
		if !utf8.Valid(got.Head) || !utf8.Valid(got.Tail) {
			t.Errorf("cap %d: %q ... %q", limit, got.Head, got.Tail)
		}
		if int(got.Dropped)+len(got.Head)+len(got.Tail) != len(text) || !strings.HasSuffix(text, string(got.Tail)) {
			t.Errorf("cap %d: %d dropped, %d and %d kept of %d", limit, got.Dropped, len(got.Head), len(got.Tail),
				len(text))
		}
	}
}

// TestCaptureMemory: whatever is written, no more than the cap is held.
func TestCaptureMemory(t *testing.T) {
	const limit = 1 << 20
	piece := bytes.Repeat([]byte("x"), 32<<10)
	c := newCapture(limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 8 << 10 { // 256 MiB
		c.write(piece)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*limit {
		// a slice that doubles takes several times its end
		t.Errorf("%d bytes were taken for a cap of %d", grown, limit)
	}
	held := cap(c.tail)
	for _, p := range c.head {
		held += cap(p)
	}
	if c.total != 256<<20 || held > 3*limit {
		t.Errorf("total %d, holding %d", c.total, held)
	}
}
