// Package golang is Go as a language of Fumehood.
package golang

import (
	"fmt"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Go: one file of package main, or the entry of a module whose files came with the request.
var Language = sandbox.Language{
	Name:       "go",
	Title:      "Go",
	Aliases:    []string{"golang"},
	Extensions: []string{".go"},
	FileName:   "main.go",
	Compile: &sandbox.Compile{
		Programs: []string{"go", "/usr/local/go/bin/go"}, // where Go's own archive puts it, which PATH may lack
		Argv: func(program, path, output string) []string {
			return []string{program, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", output, path}
		},
		Output:  "main",
		Version: []string{"version"},
		// Since Go 1.20, the first build in a sandbox also compiles the packages of the standard library that the code
		// uses.
		Limits: sandbox.Limits{MemoryBytes: 1 << 30, DiskBytes: 512 << 20, Timeout: time.Minute},
	},
	Argv: func(_, path string) []string { return []string{path} },
	// The cache is hidden, in a folder with enough space on every backend. Without cgo, no C compiler is needed.
	Env: []string{"GOCACHE=/tmp/.cache/go-build", "GOPATH=/tmp/.cache/go", "GOTOOLCHAIN=local", "GOTELEMETRY=off",
		"CGO_ENABLED=0"},
	// Under its soft limit the collector works harder. The rest is for stacks of C code and files.
	Sized: func(l sandbox.Limits) []string {
		return []string{fmt.Sprintf("GOMEMLIMIT=%dMiB", l.MemoryBytes>>20*9/10), fmt.Sprintf("GOMAXPROCS=%d", l.CPUs())}
	},
	Offline:    []string{"GOPROXY=off"},
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install golang", Image: "golang:1"},
	Probe:      "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"42\\n\") }\n",
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule,
		`(?:no required module provides package|cannot find module providing package) ([^\s:;]+)`),
	trace.On(sandbox.SymptomNoModule, `package (\S+) is not in (?:GOROOT|std)`),
}

// parseError returns the panic or the runtime error that ended a program. The stacks of goroutines follow it.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		for _, name := range []string{"panic", "fatal error"} {
			value, ok := strings.CutPrefix(lines[i], name+": ")
			if !ok || i+1 < len(lines) && lines[i+1] != "" && !strings.HasPrefix(lines[i+1], "[") &&
				!strings.HasPrefix(lines[i+1], "\t") {
				continue
			}
			return trace.Exception(name, []string{value}, lines[i:])
		}
	}
	return nil
}
