package python

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// symptoms matches messages of CPython 3 and of pip. subprocess raises execve's error in _execute_child.
var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNotebook, "(?m)^UsageError: (?:Line|Cell) magic function `%%?([A-Za-z_][A-Za-z0-9_.]*)`"),
	trace.On(sandbox.SymptomNotebook, `(?m)^ +[%!].*\n(?: *\^+\n)?(?:SyntaxError|IndentationError): `),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoInstall, Name: "pip"},
		`externally-managed-environment|No matching distribution found for`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomUserFolder},
		"failed to create directory `/usr/\\S*/(?:dist|site)-packages"),
	trace.On(sandbox.SymptomNoModule,
		`(?m)^ModuleNotFoundError: No module named '([^']+)'|^ImportError: cannot import name`),
	// packages that others import only for some calls, as pandas, xgboost and Beautiful Soup do
	trace.On(sandbox.SymptomNoDependency, "(?m)^(?:\\w+\\.)*(?:ImportError|ModuleNotFoundError): "+
		"['\"`]?([A-Za-z0-9_.-]+)['\"`]? "+
		"(?:needs to be installed|is (?:required|not installed|needed|missing)|must be installed|not found, please "+
		"install)"),
	trace.On(sandbox.SymptomNoDependency, "(?m)^ImportError: (?:Missing optional dependency '|`Import |.*tried "+
		"using: '|"+
		".*requires? (?:the )?['\"`]?)([A-Za-z0-9_.-]+)"),
	trace.On(sandbox.SymptomNoDependency, `features you requested: ([a-z0-9]+)\. Do you need to install`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "NLTK", Hosts: []string{"raw.githubusercontent.com"}},
		`nltk\.download\(|\[nltk_data\] Error loading`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "spaCy",
		Hosts: []string{"github.com", "release-assets.githubusercontent.com", "raw.githubusercontent.com"}},
		`\[E050\] Can't find model`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "Playwright", Hosts: []string{"cdn.playwright.dev"}},
		`Executable doesn't exist at [^\n]*(?:playwright|chrom|firefox|webkit)|playwright install`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoData, Name: "Hugging Face",
		Hosts: []string{"huggingface.co", "*.huggingface.co", "*.hf.co"}},
		`(?m)^(?:OSError: We couldn't connect to 'https://huggingface\.co'|`+
			`huggingface_hub\.\w+\.\w+: .*(?:cannot find|Cannot find)|.*LocalEntryNotFoundError: )`),
	trace.On(sandbox.SymptomNoFont, `UserWarning: Glyph (\d+) \([^\n]* missing from `),
	trace.On(sandbox.SymptomNoNetwork, `(?m)(?:host='|Failed to resolve ')([A-Za-z0-9.-]+)'[^\n]*`+
		`(?:NameResolutionError|name resolution|Network is unreachable)`),
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
