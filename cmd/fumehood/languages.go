package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
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

func (a *app) newLanguages() *cobra.Command {
	var backend, image string
	cmd := &cobra.Command{
		Use:   "languages",
		Short: "List the languages, with the versions and modules in sandboxes",
		Long: `Languages asks each interpreter in a sandbox for its version and the modules that code can import.
--json lists the modules.`,
		Example: "  fumehood languages --image python:3.12-slim",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listLanguages(cmd.Context(), backend, image)
		},
	}
	cmd.Flags().StringVar(&backend, "backend", "", "backend `NAME` (default "+defaultBackend+")")
	completions(cmd, "backend", "native", "gvisor", "docker", "podman", "auto")
	cmd.Flags().StringVar(&image, "image", "", "image or template `REF` whose interpreters are asked")
	a.containers.pull.add(cmd)
	return cmd
}

func (a *app) listLanguages(ctx context.Context, backend, image string) (err error) {
	// Interpreters answer without a memory limit, too.
	e, err := a.openEngine(engine.Config{Default: backend,
		AllowUnenforced: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	surveys, err := e.Surveys(ctx, "", image)
	if err != nil {
		return err
	}
	out := api.Languages{Languages: []api.Language{}}
	rows := [][]string{{"LANGUAGE", "VERSION", "MODULES", "PROBLEM"}}
	for _, s := range surveys {
		l, version, modules := answer.LanguageOf(&s.Language, &s.Survey), s.Survey.Version, ""
		if s.Err != nil {
			problem := problemOf(s.Err)
			l.Error, l.Hint = problem.Detail, problem.Hint
		} else if len(l.Modules) > 0 {
			modules = strconv.Itoa(len(l.Modules))
		}
		out.Languages = append(out.Languages, l)
		rows = append(rows, []string{l.Name, version, modules, terminal.OneLine(fmt.Sprintf("%.100s", l.Error))})
	}
	if a.json {
		return a.printJSON(out)
	}
	return a.printTable(rows)
}
