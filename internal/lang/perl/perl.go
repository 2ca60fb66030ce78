// Package perl is Perl as a language of Fumehood.
package perl

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Perl 5.
var Language = sandbox.Language{
	Name:       "perl",
	Title:      "Perl 5",
	Aliases:    []string{"pl"},
	Extensions: []string{".pl"},
	FileName:   "main.pl",
	Programs:   []string{"perl"},
	Argv:       func(program, path string) []string { return []string{program, path} },
	Installers: []string{"cpan", "cpanm"},
	ModulePath: "PERL5LIB",
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install perl", Image: "perl:5-slim"},
	Probe:      "print 6 * 7, \"\\n\";\n",
	Survey: "printf qq({\"version\":\"%vd\",\"standard_library\":%s,\"modules\":[]}\\n), $^V, eval { require " +
		"Data::Dumper } ? 'true' : 'false';\n",
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `Can't locate \S+ in @INC \(you may need to install the (\S+) module\)`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory}, `(?m)^Out of memory`),
}

var (
	died    = trace.Pattern(`^(.*) at (\S.*?) line \d+(?:, <\w+> (?:line|chunk) \d+)?\.$`)
	aborted = trace.Pattern(`^(?:Execution of .* aborted due to compilation errors\.|.* had compilation errors\.|` +
		`BEGIN failed--compilation aborted at .*)$`)
)

// parseError returns the message of die at the end of stderr, or the first error of the compiler.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	if len(lines) == 0 {
		return nil
	}
	last := len(lines) - 1
	if aborted().MatchString(lines[last]) {
		for i := max(0, last-maxComplaints); i < last; i++ {
			if before, _, ok := strings.Cut(lines[i], " at "); ok {
				name := "error"
				if strings.HasPrefix(before, "syntax error") {
					name = "syntax error"
				}
				return trace.Exception(name, []string{lines[i]}, lines[i:])
			}
		}
		return nil
	}
	if m := died().FindStringSubmatch(lines[last]); m != nil {
		return trace.Exception("die", []string{m[1]}, lines[last:])
	}
	return nil
}

const maxComplaints = 20 // lines of the compiler
