package bash

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Bash, of Debian's /bin/sh, and of apt.
var symptoms = trace.Symptoms{
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoInstall, Name: "apt"},
		`(?m)^E: .*(?:/var/lib/(?:dpkg|apt)/|are you root\?|Unable to locate package)`),
	// A carriage return in the text, as Bash quotes it, as the kernel's shebang error shows it, or as it is. The line
	// of the others names the file, which is looked at.
	trace.On(sandbox.SymptomLineEnds,
		`\$'[^'\n]*\\r'|env: \S*\\r|\^M: bad interpreter|(?m:\r: not found$)`),
	trace.On(sandbox.SymptomLineEnds, `(?m): (\S+): cannot execute: required file not found$`),
	trace.On(sandbox.SymptomLineEnds, `(?m)^(\S+): line \d+: syntax error`),
	trace.On(sandbox.SymptomLineEnds, `(?m)^(\S+): \d+: Syntax error`),
	trace.On(sandbox.SymptomNoCommand, `(?m): ([^\s:]+): (?:command )?not found$`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitPids}, `fork: retry`),
}
