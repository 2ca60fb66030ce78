package bash

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of Bash, of Debian's /bin/sh, and of apt.
var symptoms = []trace.Symptom{
	{Pattern: trace.Pattern(`(?m)^E: .*(?:/var/lib/(?:dpkg|apt)/|are you root\?|Unable to locate package)`),
		Hint: sandbox.Hint{Code: sandbox.HintNoInstall, Name: "apt"}},
	{Pattern: trace.Pattern(`(?m): ([^\s:]+): (?:command )?not found$`),
		Hint: sandbox.Hint{Code: sandbox.HintNoCommand}},
	{Pattern: trace.Pattern(`fork: retry`), Hint: sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitPids}},
}

// Diagnose finds likely causes in the output of a failed script, or of a shell in another program.
func Diagnose(output string) []sandbox.Hint { return trace.Diagnose(symptoms, output) }
