package javascript

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Node and of npm.
var symptoms = []trace.Symptom{
	{Pattern: trace.Pattern(`(?m)^npm (?:error|ERR!).*\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED)\b`),
		Hint: sandbox.Hint{Code: sandbox.HintNoInstall, Name: "npm"}},
	{Pattern: trace.Pattern(`require is not defined in ES module scope`),
		Hint: sandbox.Hint{Code: sandbox.HintESModule}},
	{Pattern: trace.Pattern(`Cannot find (?:module|package) '([^'./\n][^'\n]*)'`),
		Hint: sandbox.Hint{Code: sandbox.HintNoModule}},
	{Pattern: trace.Pattern(`Cannot find module '([./][^'\n]+)'`), Hint: sandbox.Hint{Code: sandbox.HintMissingFile}},
	{Pattern: trace.Pattern(`spawn(?:Sync)? (\S+) ENOENT`), Hint: sandbox.Hint{Code: sandbox.HintNoCommand}},
	{Pattern: trace.Pattern(`spawn(?:Sync)? (\S+) EACCES`), Hint: sandbox.Hint{Code: sandbox.HintNotProgram}},
	{Pattern: trace.Pattern(`spawn(?:Sync)? \S+ EAGAIN|uv_thread_create`),
		Hint: sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitPids}},
	{Pattern: trace.Pattern(`\bENOSPC\b`), Hint: sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitDisk}},
	{Pattern: trace.Pattern(`\bEMFILE\b`), Hint: sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitOpenFiles}},
	{Pattern: trace.Pattern(`\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b`),
		Hint: sandbox.Hint{Code: sandbox.HintNoNetwork}},
	{Pattern: trace.Pattern(`JavaScript heap out of memory`), Hint: sandbox.Hint{Code: sandbox.HintMemory}},
	{Pattern: trace.Pattern(`(?:EROFS|EACCES): [\w -]+, \w+ '(/[^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintReadOnly}},
	{Pattern: trace.Pattern(`ENOENT: no such file or directory, \w+ '([^'\n]+)'`),
		Hint: sandbox.Hint{Code: sandbox.HintMissingFile}},
}

// Diagnose finds likely causes in the output of a failed Node program.
func Diagnose(output string) []sandbox.Hint { return trace.Diagnose(symptoms, output) }
