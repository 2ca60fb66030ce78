package server

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
)

// While one writes and another reads, in every way that a gatherer reads, the count is never below what was written
// before nor above what is being written.
func TestWrittenIsExact(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := newPipeReader(r)
	defer g.Close()
	var begun, done atomic.Uint64
	go func() {
		defer w.Close()
		piece := make([]byte, 3000)
		for i := range 40_000 {
			n := uint64(1 + i*i%len(piece))
			begun.Add(n)
			w.Write(piece[:n])
			done.Add(n)
		}
	}()
	over := make(chan uint64)
	go func() {
		all, b := uint64(0), make([]byte, 4096)
		for {
			n, err := g.Read(b)
			all += uint64(n)
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				over <- all
				return
			}
		}
	}()
	for {
		least := done.Load()
		got := g.written()
		if most := begun.Load(); got < least || got > most {
			t.Fatalf("%d bytes counted, between %d and %d are written", got, least, most)
		}
		select {
		case all := <-over:
			if got := g.written(); got != all || all != done.Load() {
				t.Errorf("%d bytes counted, %d read, %d written", got, all, done.Load())
			}
			return
		default:
		}
	}
}

// However many marks there are and whichever bytes are forgotten, no byte's mark is below its own, and few are kept.
func TestMarksAreBoundedAndNeverTooLow(t *testing.T) {
	const n = 3 * maxMarks
	var m marks
	kept := 0
	for i := 1; i <= n; i++ {
		m.add(mark{end: uint64(2 * i), stdout: uint64(10 * (i / 2)), stderr: uint64(i / 2)})
		if i%7 == 0 && i < n/8 {
			kept = i
			m.forget(uint64(2*i - 1)) // the second byte of the piece is kept
		}
		if i == n/2 {
			kept = maxMarks
			m.forget(2 * maxMarks)
		}
		if len(m) > maxMarks {
			t.Fatalf("%d marks", len(m))
		}
		for end := max(2*kept+1, 2*i-50); end <= 2*i; end++ {
			piece := (end + 1) / 2
			if got := m.of(uint64(end)); got.stdout < uint64(10*(piece/2)) || got.stderr < uint64(piece/2) ||
				got.stdout > uint64(10*(i/2)) {
				t.Fatalf("after %d pieces, byte %d has %+v", i, end, got)
			}
		}
	}
	if m.forget(2 * n); len(m) != 0 {
		t.Errorf("%d marks of nothing", len(m))
	}
}
