// Package ruby is Ruby as a language of Fumehood.
package ruby

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Ruby.
var Language = sandbox.Language{
	Name:       "ruby",
	Title:      "Ruby",
	Aliases:    []string{"rb"},
	Extensions: []string{".rb"},
	FileName:   "main.rb",
	Programs:   []string{"ruby"},
	Argv:       func(program, path string) []string { return []string{program, path} },
	Installers: []string{"gem", "bundle", "bundler"},
	ModulePath: "RUBYLIB",
	Online:     []string{"GEM_HOME=" + sandbox.Home + "/.local"}, // its bin is on PATH
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install ruby", Image: "ruby:3-slim"},
	Probe:      "puts 6 * 7\n",
	Survey: `require "json"
modules = Gem::Specification.map { |s| { name: s.name, version: s.version.to_s } }.uniq { |m| m[:name] }
puts JSON.generate(version: RUBY_VERSION, standard_library: true, modules: modules.sort_by { |m| m[:name] })
`,
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `cannot load such file -- (\S+) \(LoadError\)`),
	trace.On(sandbox.SymptomNoCommand, `No such file or directory - (\S+) \(Errno::ENOENT\)`),
	trace.On(sandbox.SymptomMissingFile, `No such file or directory @ \w+ - (\S+) \(Errno::ENOENT\)`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`failed to allocate memory \(NoMemoryError\)`),
}

var (
	raised = trace.Pattern(`^(\S.*?):\d+:in [` + "`" + `'].*?': (.*) \(([A-Z]\w*(?:::\w+)*)\)$`)
	syntax = trace.Pattern(`^(?:ruby: )?(\S.*?):\d+: (syntax error.*)$`)
)

// parseError returns the last uncaught exception: "FILE:LINE:in 'METHOD': MESSAGE (CLASS)", then its stack.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "\t") {
			continue
		}
		if m := raised().FindStringSubmatch(lines[i]); m != nil {
			return trace.Exception(m[3], []string{m[2]}, lines[i:])
		}
		if m := syntax().FindStringSubmatch(lines[i]); m != nil {
			return trace.Exception("SyntaxError", []string{m[2]}, lines[i:])
		}
	}
	return nil
}
