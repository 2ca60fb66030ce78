package answer

import (
	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// LanguageOf returns the description of a language with its survey. If the survey failed, the caller sets Error.
func LanguageOf(l *sandbox.Language, s *sandbox.LanguageSurvey) api.Language {
	out := api.Language{Name: l.Name, Title: l.Title, Aliases: List(l.Aliases), Extensions: List(l.Extensions),
		FileName: l.FileName, Version: orNull(s.Version), StandardLibrary: s.StandardLibrary, Modules: []api.Module{}}
	for _, m := range s.Modules {
		out.Modules = append(out.Modules, api.Module{Name: m.Name, Version: orNull(m.Version)})
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
