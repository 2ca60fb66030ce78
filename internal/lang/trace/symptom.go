package trace

import (
	"regexp"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Symptom matches the output of programs that lack something in a sandbox.
type Symptom struct {
	pattern func() *regexp.Regexp
	sandbox.Symptom
}

// On returns a symptom with a pattern. The first group of the pattern, if any, is the name in the symptom.
func On(kind sandbox.SymptomKind, pattern string) Symptom {
	return With(sandbox.Symptom{Kind: kind}, pattern)
}

// With is On for a symptom with further facts.
func With(symptom sandbox.Symptom, pattern string) Symptom { return Symptom{Pattern(pattern), symptom} }

// Symptoms are those of one language.
type Symptoms []Symptom

// Diagnose returns the symptoms in the output, in the order of symptoms, each with the last name in the output.
func (symptoms Symptoms) Diagnose(output string) []sandbox.Symptom {
	var all []sandbox.Symptom
	for _, s := range symptoms {
		found := s.pattern().FindAllStringSubmatch(output, -1)
		if found == nil {
			continue
		}
		if last := found[len(found)-1]; s.Name == "" && len(last) > 1 {
			s.Name = last[1]
		}
		all = append(all, s.Symptom)
	}
	return all
}
