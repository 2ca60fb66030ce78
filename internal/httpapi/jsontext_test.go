package httpapi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// JSON that is written piece by piece is what an encoder makes of the whole.
func TestJSONText(t *testing.T) {
	long := strings.Repeat("a€😀\x01\u2028\"<\\", longText/5)
	binary := []byte(strings.Repeat("\xff\x00", longText) + "x")
	result := func() *sandbox.Result {
		return &sandbox.Result{
			Stdout:    sandbox.Captured{Head: []byte(long)},
			Stderr:    sandbox.Captured{Head: binary, Tail: []byte("tail"), Dropped: 1},
			Exception: &sandbox.Exception{Name: long, Value: "short", Traceback: long[1:] + "\xff"},
			Files:     []sandbox.File{{Path: "b", Data: binary}, {Path: "a", Data: binary[1:]}, {Path: "c", Data: []byte("short")}},
		}
	}
	answer, small := NewAnswer(result()), newExecuteAnswer(result())
	answers := map[string]any{"run": answer, "execute": small}
	for name, layOut := range map[string]func() *jsonText{
		"run":     func() *jsonText { a := NewAnswer(result()); return a.layOut() },
		"execute": func() *jsonText { a := newExecuteAnswer(result()); return a.layOut() },
	} {
		var got, want bytes.Buffer
		encodeJSON(&want, answers[name])
		text := layOut()
		if err := text.writeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s: %v, %d bytes differ from %d", name, err, got.Len(), want.Len())
		}
		if text.length() != int64(want.Len()) || len(text.long) < 4 || text.size() > int64(want.Len()) {
			t.Errorf("%s: %d bytes of %d, %d held, %d long texts", name, text.length(), want.Len(), text.size(), len(text.long))
		}
	}
}

// What a problem quotes of a hostile request is brief.
func TestProblemIsBrief(t *testing.T) {
	name := strings.Repeat("\u0085", 1<<16)
	for _, body := range []string{
		`{"env":{"` + name + `":"","` + name + `":""}}`, `{"env":{"` + name + `":1}}`, `{"` + name + `":1}`,
	} {
		var req RunRequest
		err := decode([]byte(body), &req)
		if p := problemOf(err, "x"); len(err.Error()) > longestText || len(p.Detail) > longestText {
			t.Errorf("%d bytes", len(p.Detail))
		}
	}
	p := newProblem(sandbox.Invalidf(name, "%s", name), "x")
	if n := len(p.Detail) + len(p.Op); n > 3*longestText {
		t.Errorf("%d bytes", n)
	}
}
