// Package typescript is TypeScript on Node as a language of Fumehood.
package typescript

import (
	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is TypeScript. In the sandbox, our compiler (cmd/fumehood-typescript) removes types and bundles the local
// files that the code imports. Node runs the result. Tracebacks name lines of the source.
var Language = sandbox.Language{
	Name:       "typescript",
	Title:      "TypeScript (Node)",
	Aliases:    []string{"ts", "tsx"},
	Extensions: []string{".ts", ".mts", ".cts", ".tsx"},
	FileName:   "main.ts",
	Compile: &sandbox.Compile{
		Tool:   "typescript",
		Argv:   func(program, path, output string) []string { return []string{program, path, output} },
		Output: "main.js",
	},
	Programs:  javascript.Language.Programs,
	LeastPids: javascript.Language.LeastPids,
	Argv: func(program, path string) []string {
		return []string{program, "--enable-source-maps", path}
	},
	ModulePath: javascript.Language.ModulePath,
	Installer:  javascript.Language.Installer,
	ParseError: javascript.ParseError,
	Diagnose:   javascript.Language.Diagnose,
	Missing:    javascript.Language.Missing,
	Probe:      "const answer: number = 6 * 7\nconsole.log(answer)\n",
	Survey:     javascript.Language.Survey,
}
