package python

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of CPython 3 and of pip. subprocess raises execve's error in _execute_child.
var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNotebook, `(?m)^ +[%!].*\n(?: *\^+\n)?(?:SyntaxError|IndentationError): `),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoInstall, Name: "pip"},
		`externally-managed-environment|No matching distribution found for`),
	trace.On(sandbox.SymptomNoModule,
		`(?m)^ModuleNotFoundError: No module named '([^']+)'|^ImportError: cannot import name`),
	trace.On(sandbox.SymptomNoCommand,
		`(?s)in _execute_child\n.*\nFileNotFoundError: \[Errno 2\] No such file or directory: '([^'\n]+)'`),
	trace.On(sandbox.SymptomNotProgram,
		`(?s)in _execute_child\n.*\nPermissionError: \[Errno 13\] Permission denied: '([^'\n]+)'`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit,
		Limit: sandbox.LimitPids}, `can't start new thread`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`(?m)^(?:\w+\.)*\w*MemoryError\b`),
	trace.On(sandbox.SymptomNoInput, `(?m)^EOFError: EOF when reading a line`),
	trace.On(sandbox.SymptomReadOnly, `(?m)Error: \[Errno (?:30|13)\] [\w -]+: '(/[^'\n]+)'`),
	trace.On(sandbox.SymptomMissingFile, `(?m)^FileNotFoundError: \[Errno 2\] No such file or directory: '([^'\n]+)'`),
}
