package driver_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/driver"
)

// However the bytes are cut, the same frames come out.
func TestParserJoinsPieces(t *testing.T) {
	var stream []byte
	sent := []driver.Frame{
		{Kind: driver.Ready, Fields: [][]byte{[]byte("Python 3")}},
		{Kind: driver.Done},
		{Kind: driver.Result, Fields: [][]byte{[]byte("a"), {}, []byte("two\nlines \x00")}},
	}
	for _, f := range sent {
		stream = f.Append(stream)
	}
	for _, piece := range []int{1, 2, 7, len(stream)} {
		var p driver.Parser
		var got []byte
		for rest := stream; len(rest) > 0; {
			n := min(piece, len(rest))
			if err := p.Feed(rest[:n], func(f driver.Frame) error { got = f.Append(got); return nil }); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if !bytes.Equal(got, stream) {
			t.Errorf("in pieces of %d: %q, want %q", piece, got, stream)
		}
	}
}

// The beginning of the next frame does not keep the memory of a large one: a context may stay like that for days.
func TestParserGivesUpMemory(t *testing.T) {
	large := driver.Frame{Kind: driver.Exception, Fields: [][]byte{make([]byte, driver.MaxFrame)}}.Append(nil)
	parsers := make([]driver.Parser, 4)
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range parsers {
		for _, piece := range [][]byte{large[:len(large)-1], append(large[len(large)-1:], "done"...)} {
			if err := parsers[i].Feed(piece, func(driver.Frame) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if now := held(); now > before+driver.MaxFrame {
		t.Errorf("%d idle parsers hold %d bytes", len(parsers), now-before)
	}
	if parsers[0].Pending() != len("done") {
		t.Errorf("%d bytes are pending", parsers[0].Pending())
	}
	runtime.KeepAlive(large)
}

// TestParserMovesOnce: the pieces of a large frame, however small they are, do not move what came before them: the
// largest frame in such pieces would take minutes.
func TestParserMovesOnce(t *testing.T) {
	large := driver.Frame{Kind: driver.Result, Fields: [][]byte{make([]byte, driver.MaxFrame)}}.Append(nil)
	var p driver.Parser
	frames := 0
	for rest := large; len(rest) > 0; {
		n := min(64, len(rest))
		if err := p.Feed(rest[:n], func(driver.Frame) error { frames++; return nil }); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if frames != 1 || !p.Empty() {
		t.Errorf("%d frames, and %d bytes are pending", frames, p.Pending())
	}
}

// TestParserAllocates: a large frame in pieces takes a few times its size, its copy for the caller included.
func TestParserAllocates(t *testing.T) {
	large := driver.Frame{Kind: driver.Result, Fields: [][]byte{make([]byte, driver.MaxFrame)}}.Append(nil)
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	var p driver.Parser
	for rest := large; len(rest) > 0; {
		n := min(64<<10, len(rest))
		if err := p.Feed(rest[:n], func(driver.Frame) error { return nil }); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if took := allocated() - before; took > 4*driver.MaxFrame {
		t.Errorf("%d bytes were allocated for a frame of %d", took, len(large))
	}
}

// TestParserRests: a parser that rests drops the beginning of a large frame, holds little, and gets the next frame.
func TestParserRests(t *testing.T) {
	frame := func(size int) []byte {
		return driver.Frame{Kind: driver.Result, Fields: [][]byte{make([]byte, size)}}.Append(nil)
	}
	for size, dropped := range map[int]bool{100: false, 100_000: true, driver.MaxFrame: true} {
		var p driver.Parser
		var got []int
		stream := append(frame(size), frame(3)...)
		for at, n := range []int{50, 20, len(stream) - 70} {
			if err := p.Feed(stream[:n], func(f driver.Frame) error {
				got = append(got, len(f.Fields[0]))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			stream = stream[n:]
			if at == 0 {
				if n := p.Rest(); (n == 50) != dropped || p.Dropping() != dropped || p.Empty() {
					t.Errorf("%d: dropped %d bytes", size, n)
				}
			} else if n := p.Rest(); n != 0 {
				t.Errorf("%d: dropped %d bytes again", size, n)
			}
		}
		if want := 2; len(got) == want == dropped || got[len(got)-1] != 3 || p.Dropping() || !p.Empty() {
			t.Errorf("%d: fields of %d bytes", size, got)
		}
		if want := uint64(len(frame(size)) + len(frame(3))); p.Used() != want {
			t.Errorf("%d: %d bytes were used, not %d", size, p.Used(), want)
		}
	}
}

func TestParserRefuses(t *testing.T) {
	for name, stream := range map[string]string{
		"no end of the header": strings.Repeat("x", driver.MaxHeader),
		"a word":               "done x\n",
		"a sign":               "done +1\n",
		"a negative length":    "done -1\n",
		"a zero before":        "done 01\n",
		"two blanks":           "done  1\n",
		"too large":            "result 99999999 99999999\n",
		"past 31 bits":         "result 4294967296\n",
		"too many fields":      "result" + strings.Repeat(" 1", driver.MaxFields+1) + "\n",
	} {
		var p driver.Parser
		if err := p.Feed([]byte(stream), func(driver.Frame) error { return errors.New("a frame") }); err == nil ||
			err.Error() == "a frame" {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add([]byte("ready 2\nhidone 1 1\na0"))
	f.Add([]byte("result 1 0 4\nx1text"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var whole, pieces []byte
		var p, q driver.Parser
		err := p.Feed(stream, func(f driver.Frame) error { whole = f.Append(whole); return nil })
		var err2 error
		for i := 0; i < len(stream) && err2 == nil; i++ {
			err2 = q.Feed(stream[i:i+1], func(f driver.Frame) error { pieces = f.Append(pieces); return nil })
		}
		if (err == nil) != (err2 == nil) || !bytes.Equal(whole, pieces) {
			t.Fatalf("whole: %q, %v; in pieces: %q, %v", whole, err, pieces, err2)
		}
		if !bytes.HasPrefix(stream, whole) {
			t.Fatalf("%q is not what came: %q", whole, stream)
		}
	})
}
