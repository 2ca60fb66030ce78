package trace

import (
	"regexp"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Symptom is what programs print when they run into something that a sandbox has not. The first group of the pattern, if there is one, is the
// name of the thing.
type Symptom struct {
	Pattern func() *regexp.Regexp
	Hint    sandbox.Hint
}

// Diagnose returns the hints of the symptoms whose pattern is in the text, in their order, each with the last name that it has there.
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
