// Package c is C and C++ as languages of Fumehood.
package c

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// C is C, compiled by the system's compiler with its default standard and with warnings.
var C = sandbox.Language{
	Name:       "c",
	Title:      "C",
	Extensions: []string{".c"},
	FileName:   "main.c",
	Compile:    compile("gcc", "cc", "clang"),
	Argv:       run,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install gcc libc6-dev", Image: "gcc:14"},
	Probe:      "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 6 * 7); }\n",
}

// CPP is C++.
var CPP = sandbox.Language{
	Name:       "cpp",
	Title:      "C++",
	Aliases:    []string{"c++", "cxx"},
	Extensions: []string{".cpp", ".cc", ".cxx", ".c++"},
	FileName:   "main.cpp",
	Compile:    compile("g++", "c++", "clang++"),
	Argv:       run,
	ParseError: parseThrown,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install g++", Image: "gcc:14"},
	Probe:      "#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }\n",
}

func compile(programs ...string) *sandbox.Compile {
	return &sandbox.Compile{
		Programs: programs,
		Argv: func(program, path, output string) []string {
			return []string{program, "-O1", "-Wall", "-o", output, path, "-lm", "-pthread"}
		},
		Output:  "main",
		Version: []string{"--version"},
	}
}

func run(_, path string) []string { return []string{path} }

var thrown = trace.Pattern(`^terminate called after throwing an instance of '([^']+)'$`)

// parseThrown returns the exception that ended a program. The C++ library prints its type and message.
func parseThrown(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0 && i >= len(lines)-maxWhat; i-- {
		if m := thrown().FindStringSubmatch(lines[i]); m != nil {
			var value []string
			for _, line := range lines[i+1:] {
				value = append(value, trimWhat(line))
			}
			return trace.Exception(m[1], value, lines[i:])
		}
	}
	return nil
}
