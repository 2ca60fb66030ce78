package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const defaultLanguage = "python"

func languageNames() []string {
	var names []string
	for _, l := range lang.All() {
		names = append(names, l.Name)
	}
	return names
}

// contextLanguages returns the languages whose contexts keep variables.
func contextLanguages() []string {
	return slices.DeleteFunc(languageNames(), func(name string) bool { return !hasContexts(name) })
}

func findLanguage(matches func(l sandbox.Language) bool) (sandbox.Language, bool) {
	all := lang.All()
	if i := slices.IndexFunc(all, matches); i >= 0 {
		return all[i], true
	}
	return sandbox.Language{}, false
}

// languageNamed finds a language by its name or an alias.
func languageNamed(name string) (sandbox.Language, bool) {
	return findLanguage(func(l sandbox.Language) bool { return l.Name == name || slices.Contains(l.Aliases, name) })
}

// languageOfFile finds a language by the extension of a file.
func languageOfFile(name string) (sandbox.Language, bool) {
	extension := strings.ToLower(filepath.Ext(name))
	return findLanguage(func(l sandbox.Language) bool { return slices.Contains(l.Extensions, extension) })
}

// hasContexts reports whether code of a language runs in a context. Code of other languages runs in a new process, as a
// command does. "" is the language of the context.
func hasContexts(language string) bool {
	l, known := languageNamed(language)
	return !known || l.Driver != nil
}
