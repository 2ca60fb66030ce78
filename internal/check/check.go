// Package check looks in source text for what programs of models and strangers should seldom need. It reads words, not meaning: it gives
// advice, and is no isolation layer. All of it is linear in the text, iterative, and bounded; the text is hostile.
package check

import (
	"bytes"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/nearest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Bounds.
const (
	MaxBytes    = 1 << 20 // of one text; a longer one is a finding itself
	maxFindings = 50      // of one text
	maxOfRule   = 5       // findings of one rule in one text
	maxQuoted   = 60      // bytes of the text in a message
)

// Policy changes the rules. Names are IDs of rules.
type Policy struct {
	Allow []string // these find nothing
	Deny  []string // these refuse
}

// Check returns an Invalid error for a name that is no rule's.
func (p Policy) Check() error {
	ids := IDs()
	for field, names := range map[string][]string{"check_allow": p.Allow, "check_deny": p.Deny} {
		for _, name := range names {
			if slices.Contains(ids, name) {
				continue
			}
			err := sandbox.Invalidf(field, "%.40q is not one of %s", name, strings.Join(ids, ", "))
			if near := nearest.Name(name, ids); near != "" {
				err.Fix = "did you mean " + near + "?"
			}
			return err
		}
	}
	return nil
}

// IDs lists the rules.
func IDs() []string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.id
	}
	return ids
}

// Find checks the text of a language, by its name; of languages without rules of their own, only what is in the text of any. Findings are in
// the order of their places.
func (p Policy) Find(language string, code []byte) []sandbox.Finding {
	f := &finder{policy: p, of: map[string]int{}}
	if len(code) > MaxBytes {
		f.add(place{1, 1}, "unchecked", "the text is over 1MiB")
		return f.found
	}
	switch language {
	case "python":
		f.python(code)
	case "javascript", "typescript":
		f.script(code)
	case "bash":
		f.shell(code)
	}
	f.text(code)
	slices.SortStableFunc(f.found, func(a, b sandbox.Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return f.found
}

// place is where something is in a text.
type place struct{ line, column int }

type finder struct {
	policy Policy
	found  []sandbox.Finding
	of     map[string]int // findings by rule
}

// add enters a finding, unless there are enough.
func (f *finder) add(at place, id, message string) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.id == id })
	if i < 0 || slices.Contains(f.policy.Allow, id) || f.of[id] >= maxOfRule {
		return
	}
	one := sandbox.Finding{Rule: id, Line: at.line, Column: at.column, Message: message, Advice: rules[i].advice,
		Refuses: rules[i].refuses || slices.Contains(f.policy.Deny, id)}
	f.of[id]++
	if len(f.found) < maxFindings || one.Refuses { // no number of others hides one that refuses
		f.found = append(f.found, one)
	}
}

// quoted is a piece of hostile text that is safe to show.
func quoted(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\'' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "..."
	}
	return "'" + text + "'"
}

// at is the place of an offset.
func at(code []byte, offset int) place {
	before := code[:offset]
	return place{bytes.Count(before, []byte("\n")) + 1, offset - (bytes.LastIndexByte(before, '\n') + 1) + 1}
}
