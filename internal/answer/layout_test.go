package answer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const largeText = 16 << 10 // bytes of a text that is encoded as it is written

// JSON that is written in pieces equals the output of an ordinary encoder.
func TestJSONText(t *testing.T) {
	long := strings.Repeat("a€😀\x01\u2028\"<\\", largeText/5)
	binary := []byte(strings.Repeat("\xff\x00", largeText) + "x")
	result := func() *sandbox.Result {
		return &sandbox.Result{
			Stdout: sandbox.Captured{Head: []byte(long)},
			Stderr: sandbox.Captured{Head: binary, Tail: []byte("tail"), Dropped: 1},
			Compiled: &sandbox.Compiled{Stdout: sandbox.Captured{Head: []byte(long[1:])},
				Stderr: sandbox.Captured{Head: []byte(long)}},
			Exception: &sandbox.Exception{Name: long, Value: "short", Traceback: long[1:] + "\xff"},
			Files: []sandbox.File{{Path: "b", Data: binary}, {Path: "a", Data: binary[1:]}, {Path: "c",
				Data: []byte("short")}, {Path: "d", Data: []byte(long)}},
		}
	}
	var got, want bytes.Buffer
	largejson.Encode(&want, struct {
		TimeMS float64 `json:"time_ms"`
		*api.Answer
	}{1.5, New(wording.HTTP, result(), api.Sections...)})
	text := JSONOf(New(wording.HTTP, result(), api.Sections...))
	text.Stamp(1.5)
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d bytes differ from %d", err, got.Len(), want.Len())
	}
	if text.Length() != int64(want.Len()) || text.Size()*8/5 > int64(want.Len()) {
		t.Errorf("%d bytes of %d, %d held", text.Length(), want.Len(), text.Size())
	}
}

// TestManyShortTexts: the JSON of thousands of texts, none of them long, is not in memory either.
func TestManyShortTexts(t *testing.T) {
	const values, size = 1000, 2 << 10
	a := func() *api.Answer {
		a := &api.Answer{}
		for range values {
			data := map[string]string{"text/plain": strings.Repeat("\x01", size)}
			a.Results = append(a.Results, api.Result{Data: data})
		}
		return a
	}
	var got, want bytes.Buffer
	largejson.Encode(&want, a())
	text := JSONOf(a())
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d bytes differ from %d", err, got.Len(), want.Len())
	}
	if held := text.Size(); held > 3*values*size/2+6*256<<10 {
		t.Errorf("%d bytes are held for %d", held, values*size)
	}
}

// A problem quotes a hostile request briefly.
func TestProblemIsBrief(t *testing.T) {
	name := strings.Repeat("\u0085", 1<<16)
	p := NewPublicProblem(sandbox.Invalidf(name, "%s", name), "x")
	if n := len(p.Detail) + len(p.Param); n > 3*longestText || p.Param == "" {
		t.Errorf("%d bytes", n)
	}
}
