package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Languages finds languages by name, alias and extension.
type Languages struct {
	All    []sandbox.Language // in the caller's order
	byWord map[string]int     // name or alias, in lower case, to the index in all
	byExt  map[string]int
}

// NewLanguages returns a table of languages. Errors are Invalid: one that is not complete, or two of one name.
func NewLanguages(all []sandbox.Language) (*Languages, error) {
	t := &Languages{All: all, byWord: map[string]int{}, byExt: map[string]int{}}
	for i, l := range all {
		if l.Name == "" || l.Argv == nil || len(l.Programs) == 0 && l.Compile == nil || l.FileName == "" {
			return t, sandbox.Invalidf("languages", "%q has no name, file name, program or command line", l.Name)
		}
		if c := l.Compile; c != nil && (c.Argv == nil || c.Output == "" || (len(c.Programs) == 0) == (c.Tool == "")) {
			return t, sandbox.Invalidf("languages", "%q has a compiler without a command line or an output", l.Name)
		}
		for _, word := range append([]string{l.Name}, l.Aliases...) {
			word = strings.ToLower(word)
			if other, taken := t.byWord[word]; taken {
				return t, sandbox.Invalidf("languages", "%q means both %s and %s", word, all[other].Name, l.Name)
			}
			t.byWord[word] = i
		}
		for _, ext := range l.Extensions {
			if _, taken := t.byExt[ext]; !taken { // the first in the list wins
				t.byExt[ext] = i
			}
		}
	}
	return t, nil
}

// Find finds a language by its name or an alias, ignoring case. An unknown one is an Invalid error that lists the
// supported ones.
func (t *Languages) Find(word string) (sandbox.Language, error) {
	if i, ok := t.byWord[strings.ToLower(strings.TrimSpace(word))]; ok {
		return t.All[i], nil
	}
	names := make([]string, len(t.All))
	for i, l := range t.All {
		names[i] = l.Name
	}
	supported := strings.Join(names, ", ")
	if word == "" {
		return sandbox.Language{}, sandbox.Invalidf("language", "is missing; supported are %s", supported)
	}
	err := sandbox.Invalidf("language", "%.40q is unknown; supported are %s", word, supported)
	if near := t.nearest(strings.ToLower(word)); near != "" {
		err.Fix = "did you mean " + near + "?"
	}
	return sandbox.Language{}, err
}

// ByExtension finds a language by the extension of a file's name.
func (t *Languages) ByExtension(fileName string) (sandbox.Language, bool) {
	i, ok := t.byExt[strings.ToLower(path.Ext(fileName))]
	if !ok {
		return sandbox.Language{}, false
	}
	return t.All[i], true
}

// nearest returns the language whose name or alias is most similar to word, or "".
func (t *Languages) nearest(word string) string {
	words := make([]string, 0, len(t.byWord))
	for w := range t.byWord {
		words = append(words, w)
	}
	slices.Sort(words)
	if near := nearest.Name(word, words); near != "" {
		return t.All[t.byWord[near]].Name
	}
	return ""
}
