package trace

import (
	"regexp"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Symptom matches the output of programs that lack something in a sandbox. The first group of the pattern, if any, is
// the name in the hint.
type Symptom struct {
	Pattern func() *regexp.Regexp
	Hint    sandbox.Hint
}

// Diagnose returns the hints of the symptoms in the text, in the order of symptoms, each with the last name in the
// text.
func Diagnose(symptoms []Symptom, text string) []sandbox.Hint {
	var hints []sandbox.Hint
	for _, s := range symptoms {
		found := s.Pattern().FindAllStringSubmatch(text, -1)
		if found == nil {
			continue
		}
		h := s.Hint
		if last := found[len(found)-1]; h.Name == "" && len(last) > 1 {
			h.Name = last[1]
		}
		hints = append(hints, h)
	}
	return hints
}
