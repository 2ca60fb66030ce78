// Package check searches source text for operations that generated or untrusted programs seldom need. It reads tokens
// rather than meaning. It gives advice and is not an isolation layer. The text is hostile: all code here is linear in
// the text, iterative, and bounded.
package check

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds.
const (
	MaxBytes    = 1 << 20 // of one text; a longer text is a finding
	maxFindings = 50      // of one text
	maxOfRule   = 5       // findings of one rule in one text
	maxQuoted   = 60      // bytes of the text in a message

	// Looks at tokens. A text that needs more is a finding. Ordinary text needs a few for each byte.
	looksOfByte = 32
	leastLooks  = 64 << 10
)

// Policy changes the rules. The names are IDs of rules.
type Policy struct {
	Allow []string // rules that are disabled
	Deny  []string // rules that refuse the code
}

// Check returns an Invalid error for an unknown rule.
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

// Find checks a text in a language. For a language without rules, it applies only the rules for all languages. It sorts
// the findings by line and column.
func (p Policy) Find(language string, code []byte) []sandbox.Finding {
	f := &finder{policy: p, of: map[string]int{}}
	f.check(language, code)
	return f.found
}

func (f *finder) check(language string, code []byte) {
	if len(code) > MaxBytes {
		f.add(0, "unchecked", "the text is longer than 1MiB")
		return
	}
	f.code = string(code)
	switch language {
	case "python":
		f.python()
	case "javascript", "typescript":
		f.script()
	case "bash":
		f.shell()
	}
	f.text()
	if f.looks > f.mostLooks() {
		f.add(0, "unchecked", "the text is too complex")
	}
	slices.SortStableFunc(f.found, func(a, b sandbox.Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

type finder struct {
	policy Policy
	code   string
	found  []sandbox.Finding
	of     map[string]int // findings by rule
	looks  int            // at tokens and words
}

func (f *finder) mostLooks() int { return leastLooks + looksOfByte*len(f.code) }

// add adds a finding at an offset, within the limits.
func (f *finder) add(at int32, id, message string) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.id == id })
	if i < 0 || slices.Contains(f.policy.Allow, id) || f.of[id] >= maxOfRule {
		return
	}
	one := sandbox.Finding{Rule: id, Message: message, Advice: rules[i].advice,
		Refuses: rules[i].refuses || slices.Contains(f.policy.Deny, id)}
	f.of[id]++
	if len(f.found) == maxFindings {
		other := slices.IndexFunc(f.found, func(f sandbox.Finding) bool { return !f.Refuses })
		if !one.Refuses || other < 0 {
			return
		}
		f.found = slices.Delete(f.found, other, other+1) // findings that refuse displace others
	}
	before := f.code[:at]
	one.Line, one.Column = strings.Count(before, "\n")+1, int(at)-strings.LastIndexByte(before, '\n')
	f.found = append(f.found, one)
}

// quoted quotes a piece of hostile text so that it is safe to print.
func quoted(text string) string {
	const most = 4 * (maxQuoted + 1) // bytes of the quoted characters and one more
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\'' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "..."
	}
	return "'" + text + "'"
}
