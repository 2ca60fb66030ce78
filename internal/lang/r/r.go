// Package r is R as a language of Fumehood.
package r

import (
	"fmt"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is R. Scripts read no profile and save no workspace.
var Language = sandbox.Language{
	Name:       "r",
	Title:      "R",
	Aliases:    []string{"rscript"},
	Extensions: []string{".r"},
	FileName:   "main.R",
	Programs:   []string{"Rscript"},
	Argv:       func(program, path string) []string { return []string{program, "--vanilla", path} },
	Sized: func(l sandbox.Limits) []string {
		return []string{fmt.Sprintf("R_MAX_VSIZE=%dM", max(l.MemoryBytes>>20*vectorShare/100-besideVectors, 16))}
	},
	ModulePath: "R_LIBS",
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install r-base-core", Image: "r-base:latest"},
	Probe:      "cat(6 * 7, \"\\n\", sep = \"\")\n",
	Survey: `p <- installed.packages()
p <- p[is.na(p[, "Priority"]) | p[, "Priority"] != "base", , drop = FALSE]
modules <- if (nrow(p) == 0) "" else paste0('{"name":"', p[, "Package"], '","version":"',
  p[, "Version"], '"}', collapse = ",")
cat('{"version":"', as.character(getRversion()), '","standard_library":true,"modules":[', modules, ']}\n', sep = "")
`,
}

// Vectors have three quarters of the memory, less what R needs besides. Otherwise R bounds them by the host's memory.
const (
	vectorShare   = 75 // percent
	besideVectors = 24 // MiB
)

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `there is no package called .([\w.]+)`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`cannot allocate vector of size|vector memory exhausted`),
	trace.On(sandbox.SymptomMissingFile, `cannot open file '([^'\n]+)': No such file or directory`),
}

var failed = trace.Pattern(`^Error(?: in [^:]+(?:\(.*\))? ?)?: ?(.*)$`)

const halted = "Execution halted"

// parseError returns the error that halted a script. Long calls put its message on the next line.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	if len(lines) == 0 || lines[len(lines)-1] != halted {
		return nil
	}
	for i := len(lines) - 2; i >= 0; i-- {
		m := failed().FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		value := []string{m[1]}
		for _, line := range lines[i+1 : len(lines)-1] {
			if strings.HasPrefix(line, "Calls: ") {
				break
			}
			value = append(value, strings.TrimSpace(line))
		}
		return trace.Exception("Error", []string{strings.TrimSpace(strings.Join(value, "\n"))}, lines[i:])
	}
	return nil
}
