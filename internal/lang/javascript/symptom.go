package javascript

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Node and of npm.
var symptoms = trace.Symptoms{
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoInstall, Name: "npm"},
		`(?m)^npm (?:error|ERR!).*\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED)\b`),
	trace.On(sandbox.SymptomNotBuilt, `Could not locate the bindings `+
		`file[^\0]*?/node_modules/((?:@[\w.-]+/)?[\w.-]+)/`),
	trace.On(sandbox.SymptomNotBuilt, `No native build was found for [^\0]*?node_modules/((?:@[\w.-]+/)?[\w.-]+)`),
	trace.On(sandbox.SymptomNotBuilt, `Cannot find module `+
		`'[^'\n]*\.node'[^\0]*?/node_modules/((?:@[\w.-]+/)?[\w.-]+)/`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "Playwright", Hosts: []string{"cdn.playwright.dev"}},
		`playwright install`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "Puppeteer",
		Hosts: []string{"storage.googleapis.com"}},
		`Could not find Chrome \(ver`),
	trace.On(sandbox.SymptomESModule, `require is not defined in ES module scope`),
	trace.On(sandbox.SymptomNoModule, `Cannot find (?:module|package) '([^'./\n][^'\n]*)'`),
	trace.On(sandbox.SymptomMissingFile, `Cannot find module '([./][^'\n]+)'`),
	trace.On(sandbox.SymptomNoCommand, `spawn(?:Sync)? (\S+) ENOENT`),
	trace.On(sandbox.SymptomNotProgram, `spawn(?:Sync)? (\S+) EACCES`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitPids},
		`spawn(?:Sync)? \S+ EAGAIN|uv_thread_create`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitDisk}, `\bENOSPC\b`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitOpenFiles}, `\bEMFILE\b`),
	trace.On(sandbox.SymptomNoNetwork, `\b(?:EAI_AGAIN|ENOTFOUND) ([a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+)`),
	trace.On(sandbox.SymptomNoNetwork, `\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`JavaScript heap out of memory`),
	trace.On(sandbox.SymptomReadOnly, `(?:EROFS|EACCES): [\w -]+, \w+ '(/[^'\n]+)'`),
	trace.On(sandbox.SymptomMissingFile, `ENOENT: no such file or directory, \w+ '([^'\n]+)'`),
}
