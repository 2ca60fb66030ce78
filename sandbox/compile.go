package sandbox

import "time"

// Compile says how source text becomes a program, inside the sandbox, before it runs. This phase has its own time
// limit, output and exit code, under the same limits of memory and files.
type Compile struct {
	// Programs are the names of compilers, best first. The first on the sandbox's PATH is used.
	Programs []string
	// Tool, in place of Programs, is a program of ours that goes into the sandbox with the code.
	Tool string
	// Argv is the command line that makes output from the file at path.
	Argv func(program, path, output string) []string
	// Output names the file that it makes; Language.Argv gets its path in place of that of the code.
	Output string
	// Version is the command line, after the compiler's name, that prints its version; nil asks the language's Survey.
	Version []string
	// Limits are what the compiler needs. They replace lower defaults, never what a caller named or an operator's
	// maximum. Timeout is its own least time limit; 0 is CompileTimeout.
	Limits Limits
}

// CompileTimeout is the least time limit of most compilers. A run with a longer time limit gives its compiler as long.
const CompileTimeout = 30 * time.Second

// Compiled is the result of the compile phase of a run.
type Compiled struct {
	ExitCode int // of the compiler; -1 if a signal or Fumehood ended it
	Stdout   Captured
	Stderr   Captured
	Duration time.Duration
	// Failed means that there was no program to run: status, exit code and output of the result are those of the
	// compiler, and the output here is empty.
	Failed bool
}
