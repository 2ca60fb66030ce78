package python

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of CPython 3 and of pip. subprocess raises execve's error in _execute_child.
var symptoms = []trace.Symptom{
	{Pattern: trace.Pattern(`(?m)^ +[%!].*\n(?: *\^+\n)?(?:SyntaxError|IndentationError): `),
		Hint: sandbox.Hint{Code: sandbox.HintNotebook}},
	{Pattern: trace.Pattern(`externally-managed-environment|No matching distribution found for`),
		Hint: sandbox.Hint{Code: sandbox.HintNoInstall, Name: "pip"}},
	{Pattern: trace.Pattern(`(?m)^ModuleNotFoundError: No module named '([^']+)'|^ImportError: cannot import name`),
		Hint: sandbox.Hint{Code: sandbox.HintNoModule}},
	{Pattern: trace.Pattern(`(?s)in _execute_child\n.*\nFileNotFoundError: ` +
		`\[Errno 2\] No such file or directory: '([^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintNoCommand}},
	{Pattern: trace.Pattern(`(?s)in _execute_child\n.*\nPermissionError: \[Errno 13\] Permission denied: '([^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintNotProgram}},
	{Pattern: trace.Pattern(`can't start new thread`), Hint: sandbox.Hint{Code: sandbox.HintLimit,
		Limit: sandbox.LimitPids}},
	{Pattern: trace.Pattern(`(?m)^(?:\w+\.)*\w*MemoryError\b`), Hint: sandbox.Hint{Code: sandbox.HintMemory}},
	{Pattern: trace.Pattern(`(?m)^EOFError: EOF when reading a line`), Hint: sandbox.Hint{Code: sandbox.HintNoInput}},
	{Pattern: trace.Pattern(`(?m)Error: \[Errno (?:30|13)\] [\w -]+: '(/[^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintReadOnly}},
	{Pattern: trace.Pattern(`(?m)^FileNotFoundError: \[Errno 2\] No such file or directory: '([^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintMissingFile}},
}

// Diagnose finds likely causes in the output of a failed Python program.
func Diagnose(output string) []sandbox.Hint { return trace.Diagnose(symptoms, output) }
