// Package rust is Rust as a language of Fumehood.
package rust

import (
	"fmt"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Rust: one crate without dependencies, whose modules may be files beside it.
var Language = sandbox.Language{
	Name:       "rust",
	Title:      "Rust",
	Aliases:    []string{"rs"},
	Extensions: []string{".rs"},
	FileName:   "main.rs",
	Compile: &sandbox.Compile{
		Programs: []string{"rustc"},
		Argv: func(program, path, output string) []string {
			return []string{program, "--edition=2021", "--crate-name=main", "-Copt-level=1", "-Cdebuginfo=0",
				"-Cstrip=debuginfo", "-o", output, path}
		},
		Output:  "main",
		Version: []string{"--version"},
	},
	Argv:       func(_, path string) []string { return []string{path} },
	Sized:      func(l sandbox.Limits) []string { return []string{fmt.Sprintf("RAYON_NUM_THREADS=%d", l.CPUs())} },
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install rustc", Image: "rust:1"},
	Probe:      "fn main() { println!(\"{}\", 6 * 7); }\n",
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `(?m)^error\[E0463\]: can't find crate for `+"`([^`]+)`"),
	trace.On(sandbox.SymptomNoModule,
		`(?m)^error\[E043[23]\]: (?:unresolved import|failed to resolve: .*) `+"`([^`]+)`"),
}

var (
	panicked = trace.Pattern(`^thread '.*'(?: \(\d+\))? panicked at (?:'(.*)', \S+|\S+:\d+:\d+:)$`)
	note     = trace.Pattern(`^(?:note: |stack backtrace:)`)
)

// parseError returns the last panic. Up to Rust 1.72 its message is on the line of the place, later on the lines below.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		m := panicked().FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		value := []string{m[1]}
		if m[1] == "" {
			end := i + 1
			for end < len(lines) && !note().MatchString(lines[end]) {
				end++
			}
			value = lines[i+1 : end]
		}
		return trace.Exception("panic", value, lines[i:])
	}
	return nil
}
