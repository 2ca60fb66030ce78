package toolcall

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const pageSchema = `{"type": "object", "properties": {"q": {"type": "string", "pattern": "^[a-z]*$"},
	"n": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}, "o": {"$ref": "#"}}, "required": ["q"]}`

func pages(t testing.TB) *Set {
	s, err := Check(sandbox.Calls{Tools: []sandbox.Tool{{Name: "page", Schema: []byte(pageSchema)}, {Name: "any"}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzArguments: accepted arguments are one JSON object within all bounds, the same when checked again.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{`{}`, `{"q":"a"}`, `{"q":"a","n":[1,2]}`, `{"q":"a","o":{"q":"b"}}`, `[]`, `null`,
		`{"q":`, `{"q":"a","q":"b"}`, "{\"q\":\"\xff\"}", `{"q":"\ud800"}`, `{"q":"a"} {}`, strings.Repeat("[", 200),
		`{"n":1e999}`} {
		f.Add("page", []byte(text))
		f.Add("any", []byte(text))
	}
	s := pages(f)
	f.Fuzz(func(t *testing.T, tool string, text []byte) {
		got, err := s.Arguments(tool, text)
		if err != nil {
			if len(err.Error()) > 2*maxError {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) || got[0] != '{' || bytes.ContainsRune(got, '\n') {
			t.Errorf("%q became %q", text, got)
		}
		if again, err := s.Arguments(tool, got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%q, again %q: %v", got, again, err)
		}
	})
}

// TestBadTools: what cannot be a tool is refused by the field.
func TestBadTools(t *testing.T) {
	for want, tool := range map[string]sandbox.Tool{
		"tools[0].name":   {Name: "a-b"},
		"1 to 64":         {Name: strings.Repeat("a", 65)},
		"digits":          {Name: "__call__"},
		"description":     {Name: "a", Description: strings.Repeat("x", 9<<10)},
		"JSON Schema":     {Name: "a", Schema: []byte(`{"type": 1}`)},
		"object":          {Name: "a", Schema: []byte(`{"type": "string"}`)},
		"over":            {Name: "a", Schema: []byte(`{"title": "` + strings.Repeat("x", 33<<10) + `"}`)},
		"tools[0].schema": {Name: "a", Schema: []byte(`{"$ref": "https://example.org/schema"}`)},
	} {
		_, err := Check(sandbox.Calls{Tools: []sandbox.Tool{tool}})
		if err == nil || want != "over" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := Check(sandbox.Calls{Tools: []sandbox.Tool{{Name: "a"}, {Name: "a"}}}); err == nil {
		t.Error("two tools of one name")
	}
	if _, err := Check(sandbox.Calls{Limits: sandbox.CallLimits{Calls: -1}}); err == nil {
		t.Error("a negative limit")
	}
	_, err := pages(t).Answer(sandbox.CallAnswer{Value: make([]byte, MaxAnswer+1)})
	if sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a large answer: %v", err)
	}
}
