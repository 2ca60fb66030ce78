package bash

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Bash, of Debian's /bin/sh, and of apt.
var symptoms = trace.Symptoms{
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoInstall, Name: "apt"},
		`(?m)^E: .*(?:/var/lib/(?:dpkg|apt)/|are you root\?|Unable to locate package)`),
	trace.On(sandbox.SymptomNoCommand, `(?m): ([^\s:]+): (?:command )?not found$`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitPids}, `fork: retry`),
}
