package engine

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDoneFits: text that JSON makes six times as long still fits into the event that ends each log.
func TestDoneFits(t *testing.T) {
	text := strings.Repeat("\x01", 1<<20)
	hints := make([]sandbox.Hint, 8)
	for i := range hints {
		hints[i] = sandbox.HintStateLost{Context: text[:63]}
	}
	done := encodeResult(&sandbox.Result{
		Exception: &sandbox.Exception{Name: text, Value: text, Traceback: text}, Hints: hints}, 1)
	if len(done) > eventlog.MaxDone {
		t.Errorf("%d bytes, of at most %d", len(done), eventlog.MaxDone)
	}
}

// TestShownKeepsNoOthers: a value holds only the memory that its limit counts, not that of forms which nobody knows.
func TestShownKeepsNoOthers(t *testing.T) {
	body := append([]byte("x"), make([]byte, 1<<20)...)
	value, err := parseResult(driver.Frame{
		Kind: driver.Result, Fields: [][]byte{
			[]byte("id"), []byte("1"), []byte("text/plain"), body[:1], []byte("a/b"), body[1:]}})
	if err != nil || len(value.Forms) != 1 {
		t.Fatalf("%v, %v", value, err)
	}
	if data := value.Forms[0].Data; cap(data) > 64 || &data[0] == &body[0] {
		t.Errorf("a form of %d byte lies in %d", len(data), len(body))
	}
}

// TestBetweenIsBounded: output between two runs takes no more memory in small pieces than in large ones.
func TestBetweenIsBounded(t *testing.T) {
	in := &interpreter{}
	for i := range uint64(64 << 10) {
		if err := in.takeOutput(guest.Output{Stream: sandbox.Stdout, Offset: i, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	c := in.cutBackground()
	if n := len(c.Head) + len(c.Tail); n != maxBackground || c.Dropped != 63<<10+1024-maxBackground {
		t.Errorf("%d bytes are kept, and %d dropped", n, c.Dropped)
	}
}

// TestLongMatch: an interpreter cannot answer a completion with a name of megabytes.
func TestLongMatch(t *testing.T) {
	long := make([]byte, maxMatch+1)
	start, names, err := parseMatches([][]byte{[]byte("1"), []byte("print"), long, []byte("property")}, 3)
	if err != nil || start != 1 || len(names) != 2 {
		t.Errorf("%d, %d names, %v", start, len(names), err)
	}
}
