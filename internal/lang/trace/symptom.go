package trace

import (
	"regexp"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Symptom matches the output of programs that lack something in a sandbox.
type Symptom struct {
	pattern func() *regexp.Regexp
	hint    sandbox.Hint
}

// On returns a symptom with a hint code and a pattern. The first group of the pattern, if any, is the name in the hint.
func On(code sandbox.HintCode, pattern string) Symptom {
	return With(sandbox.Hint{Code: code}, pattern)
}

// With is On for a hint with further facts.
func With(hint sandbox.Hint, pattern string) Symptom { return Symptom{Pattern(pattern), hint} }

// Symptoms are those of one language.
type Symptoms []Symptom

// Diagnose returns the hints of the symptoms in the output, in the order of symptoms, each with the last name in the
// output.
func (symptoms Symptoms) Diagnose(output string) []sandbox.Hint {
	var hints []sandbox.Hint
	for _, s := range symptoms {
		found := s.pattern().FindAllStringSubmatch(output, -1)
		if found == nil {
			continue
		}
		h := s.hint
		if last := found[len(found)-1]; h.Name == "" && len(last) > 1 {
			h.Name = last[1]
		}
		hints = append(hints, h)
	}
	return hints
}
