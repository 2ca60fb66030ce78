package api

import (
	"encoding/json"
	"reflect"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Hint is one fact about a run, or one way to fix a problem.
type Hint struct {
	Code  sandbox.HintCode `json:"code"`            // The kind of hint.
	Text  string           `json:"text,omitempty"`  // The hint in words.
	Facts any              `json:"facts,omitempty"` // The facts of the hint, by its code; absent if it has none.
}

// NewHint returns the wire form of a hint.
func NewHint(h sandbox.Hint, text string) Hint {
	out := Hint{Code: h.Code(), Text: text}
	switch h.(type) {
	case sandbox.Note, sandbox.FixText:
	default:
		out.Facts = h
	}
	return out
}

// TypedHints returns the hints with their facts.
func TypedHints(list []Hint) []sandbox.Hint {
	out := make([]sandbox.Hint, len(list))
	for i, h := range list {
		out[i] = h.Typed()
	}
	return out
}

// Typed returns the hint with its facts. A hint of an unknown code, or with other facts, becomes its text.
func (h Hint) Typed() sandbox.Hint {
	known := sandbox.Hints[h.Code]
	if _, note := known.(sandbox.Note); note {
		return known
	}
	if facts, err := json.Marshal(h.Facts); err == nil && known != nil && h.Facts != nil {
		typed := reflect.New(reflect.TypeOf(known))
		if json.Unmarshal(facts, typed.Interface()) == nil {
			return typed.Elem().Interface().(sandbox.Hint)
		}
	}
	return sandbox.FixText{Text: h.Text}
}
