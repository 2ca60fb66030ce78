package check

import (
	"bytes"
	"slices"
	"strings"
)

// text applies the rules for the text of any language.
func (f *finder) text(code []byte) {
	for _, r := range textRules {
		if !slices.ContainsFunc(r.words, func(word string) bool { return bytes.Contains(code, []byte(word)) }) {
			continue
		}
		for _, m := range r.pattern().FindAllIndex(code, maxOfRule) {
			f.add(at(code, m[0]), r.rule, r.what+" in the text") // its value is for nobody else
		}
	}
}

// word applies the rules for a string of a program, or a word of a shell.
func (f *finder) word(at place, text string) {
	if slices.ContainsFunc(sensitiveWords, func(word string) bool { return strings.Contains(text, word) }) {
		if m := sensitive().FindStringSubmatch(text); m != nil {
			f.add(at, "sensitive-path", "sensitive path "+quoted(m[1]))
		}
	}
}

// isOutside reports whether an absolute path is not where a program has files.
func isOutside(path string) bool {
	return strings.HasPrefix(path, "/") && !slices.ContainsFunc(inside, func(place string) bool { return strings.HasPrefix(path, place) })
}
