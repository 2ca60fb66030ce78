package check

import (
	"slices"
	"strings"
)

// text applies the rules for the text of any language.
func (f *finder) text() {
	for _, r := range textRules {
		if !slices.ContainsFunc(r.words, func(word string) bool { return strings.Contains(f.code, word) }) {
			continue
		}
		for _, m := range r.pattern().FindAllStringIndex(f.code, maxOfRule) {
			f.add(int32(m[0]), r.rule, r.what+" in the text") // without its value, which is secret
		}
	}
}

// word applies the rules for a string of a program, or a word of a shell command.
func (f *finder) word(at int32, text string) {
	if slices.ContainsFunc(sensitiveWords, func(word string) bool { return strings.Contains(text, word) }) {
		if m := sensitive().FindStringSubmatch(text); m != nil {
			f.add(at, "sensitive-path", "sensitive path "+quoted(m[1]))
		}
	}
}

// isOutside reports whether a path is absolute and outside the places where programs have files.
func isOutside(path string) bool {
	isBelow := func(place string) bool { return strings.HasPrefix(path, place) }
	return strings.HasPrefix(path, "/") && !slices.ContainsFunc(inside, isBelow)
}
