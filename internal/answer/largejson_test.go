package answer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// JSON that is written in pieces equals the output of an ordinary encoder.
func TestJSONText(t *testing.T) {
	long := strings.Repeat("a€😀\x01\u2028\"<\\", longText/5)
	binary := []byte(strings.Repeat("\xff\x00", longText) + "x")
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
	Encode(&want, struct {
		TimeMS float64 `json:"time_ms"`
		*api.Answer
	}{1.5, New(wording.HTTP, result(), api.Sections...)})
	text := JSONOf(New(wording.HTTP, result(), api.Sections...))
	text.Stamp(1.5)
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d bytes differ from %d", err, got.Len(), want.Len())
	}
	if text.Length() != int64(want.Len()) || len(text.long) != 11 || text.Size() > int64(want.Len()) {
		t.Errorf("%d bytes of %d, %d held, %d long texts", text.Length(), want.Len(), text.Size(), len(text.long))
	}
}

// TestLayoutMap: the JSON of an object with long texts, bytes and JSON is that of encoding/json.
func TestLayoutMap(t *testing.T) {
	long := strings.Repeat("a€\x01<", longText)
	raw := json.RawMessage(`"` + strings.Repeat("<", 3*longText) + `"`)
	object := func() map[string]any {
		return map[string]any{"text": long, "bytes": []byte(long), "raw": raw, "short": "x", "none": nil,
			"more": map[string]any{"z": long[1:], "a": raw, "n": 1}}
	}
	var got, want bytes.Buffer
	Encode(&want, object())
	l, v := NewLayout(), object()
	l.Map(v)
	text := l.Around(v)
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) || len(text.long) != 5 {
		t.Errorf("%v, %d bytes differ from %d, %d long texts", err, got.Len(), want.Len(), len(text.long))
	}
	if text.Length() != int64(want.Len()) || text.Size() > int64(want.Len()) {
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
	Encode(&want, a())
	text := JSONOf(a())
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d bytes differ from %d", err, got.Len(), want.Len())
	}
	if held := text.Size(); held > 3*values*size/2+6*mostShort {
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
