package api

import (
	"encoding/json"
	"math"
	"reflect"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Hint is one fact about a run, or one way to fix a problem.
type Hint struct {
	Code  sandbox.HintCode `json:"code"`            // The kind of hint.
	Text  string           `json:"text,omitempty"`  // The hint in words.
	Facts any              `json:"facts,omitempty"` // The facts of the hint, by its code; absent if it has none.
}

// UnknownHint is a hint of a newer server: its code is unknown here, or its facts have another form.
type UnknownHint struct{ Hint Hint }

// Code returns the code of the hint.
func (u UnknownHint) Code() sandbox.HintCode { return u.Hint.Code }

// Bound is a sandbox.Bound among the facts of a hint, in the unit of its field of Limits.
type Bound struct {
	// The field of Limits.
	Limit string  `json:"limit" enum:"timeout_s,memory_mib,cpus,disk_mib,pids,output_kib,inodes,open_files"`
	Value float64 `json:"value"`           // The limit, in the unit of its field.
	Raise float64 `json:"raise,omitempty"` // A higher value that is allowed; absent if none is.
}

// LimitUnit is a field of Limits, and the size of its unit in the unit of package sandbox.
type LimitUnit struct {
	Field string
	Size  float64
}

// LimitUnits has the unit of each limit.
var LimitUnits = map[sandbox.LimitName]LimitUnit{
	sandbox.LimitTimeout:   {"timeout_s", float64(time.Second)},
	sandbox.LimitMemory:    {"memory_mib", 1 << 20},
	sandbox.LimitCPUs:      {"cpus", 1000},
	sandbox.LimitDisk:      {"disk_mib", 1 << 20},
	sandbox.LimitPids:      {"pids", 1},
	sandbox.LimitOutput:    {"output_kib", 1 << 10},
	sandbox.LimitInodes:    {"inodes", 1},
	sandbox.LimitOpenFiles: {"open_files", 1},
}

// NewHint returns the wire form of a hint.
func NewHint(h sandbox.Hint, text string) Hint {
	out := Hint{Code: h.Code(), Text: text}
	switch h := h.(type) {
	case UnknownHint:
		return h.Hint
	case sandbox.Note, sandbox.FixText:
		return out
	}
	out.Facts = h
	b, _ := boundOf(reflect.ValueOf(h))
	if unit, ok := LimitUnits[b.Limit]; ok {
		out.Facts = mergeFields(h, Bound{unit.Field, float64(b.Value) / unit.Size, float64(b.Raise) / unit.Size})
	}
	return out
}

// boundOf returns the Bound of a hint that has one.
func boundOf(hint reflect.Value) (b sandbox.Bound, ok bool) {
	if field := hint.FieldByName("Bound"); field.IsValid() {
		b, ok = field.Interface().(sandbox.Bound)
	}
	return b, ok
}

// mergeFields returns the JSON fields of two values. If both have a field, it takes the value of the second.
func mergeFields(first, second any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, part := range []any{first, second} {
		if text, err := json.Marshal(part); err == nil {
			_ = json.Unmarshal(text, &out)
		}
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

// Typed returns the hint with its facts. It returns an UnknownHint if the code is unknown or the facts do not fit it.
func (h Hint) Typed() sandbox.Hint {
	known := sandbox.Hints[h.Code]
	switch known.(type) {
	case sandbox.Note:
		return known
	case sandbox.FixText:
		return sandbox.FixText{Text: h.Text}
	}
	if facts, err := json.Marshal(h.Facts); err == nil && known != nil && h.Facts != nil {
		typed := reflect.New(reflect.TypeOf(known))
		if decodeFacts(facts, typed) == nil {
			return typed.Elem().Interface().(sandbox.Hint)
		}
	}
	return UnknownHint{h}
}

// decodeFacts decodes the facts of a hint into the type that the value points to.
func decodeFacts(facts []byte, into reflect.Value) error {
	var b Bound
	if _, ok := boundOf(into.Elem()); ok && json.Unmarshal(facts, &b) == nil {
		for name, unit := range LimitUnits {
			if unit.Field == b.Limit {
				facts, _ = json.Marshal(mergeFields(json.RawMessage(facts), sandbox.Bound{Limit: name,
					Value: int64(math.Round(b.Value * unit.Size)), Raise: int64(math.Round(b.Raise * unit.Size))}))
			}
		}
	}
	return json.Unmarshal(facts, into.Interface())
}
