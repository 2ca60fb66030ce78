package javascript

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Node and of npm.
var symptoms = trace.Symptoms{
	trace.With(sandbox.Hint{Code: sandbox.HintNoInstall, Name: "npm"},
		`(?m)^npm (?:error|ERR!).*\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED)\b`),
	trace.On(sandbox.HintESModule, `require is not defined in ES module scope`),
	trace.On(sandbox.HintNoModule, `Cannot find (?:module|package) '([^'./\n][^'\n]*)'`),
	trace.On(sandbox.HintMissingFile, `Cannot find module '([./][^'\n]+)'`),
	trace.On(sandbox.HintNoCommand, `spawn(?:Sync)? (\S+) ENOENT`),
	trace.On(sandbox.HintNotProgram, `spawn(?:Sync)? (\S+) EACCES`),
	trace.With(sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitPids},
		`spawn(?:Sync)? \S+ EAGAIN|uv_thread_create`),
	trace.With(sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitDisk}, `\bENOSPC\b`),
	trace.With(sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitOpenFiles}, `\bEMFILE\b`),
	trace.On(sandbox.HintNoNetwork, `\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b`),
	trace.On(sandbox.HintMemory, `JavaScript heap out of memory`),
	trace.On(sandbox.HintReadOnly, `(?:EROFS|EACCES): [\w -]+, \w+ '(/[^'\n]+)'`),
	trace.On(sandbox.HintMissingFile, `ENOENT: no such file or directory, \w+ '([^'\n]+)'`),
}
