package bash

import (
	"strings"

	"github.com/glovebox-dev/glovebox/internal/lang/trace"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// errorLine is how Bash begins its own messages: "PATH: line N: ", then often the word it is about.
var errorLine = trace.Pattern(`^([^:]+): line (\d+): (.+)$`)

const (
	syntaxName  = "syntax error"
	otherName   = "error"
	maxFollowUp = 3 // messages of Bash that belong to one error, such as the offending line after a syntax error
)

// complaints are the ends of Bash's messages that name what went wrong; before them stands the word it is about.
var complaints = []string{
	"command not found", "unbound variable", "No such file or directory", "Permission denied", "Is a directory",
	"bad substitution", "readonly variable", "ambiguous redirect", "division by 0", "not a valid identifier",
	"cannot execute binary file: Exec format error", "cannot execute: required file not found", "Argument list too long",
	"numeric argument required", "parameter null or not set", "parameter not set", "Cannot allocate memory",
	"Resource temporarily unavailable", "No space left on device",
}

// ParseError finds the shell's own last message in the end of stderr, or returns nil. The name is what went wrong ("command not
// found", "syntax error"), the value what it is about. Messages of the commands that a script runs are not the shell's.
func ParseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	if len(lines) == 0 {
		return nil
	}
	at := len(lines) - 1
	m := errorLine().FindStringSubmatch(lines[at])
	if m == nil || strings.HasPrefix(m[3], "warning: ") {
		return nil
	}
	// A syntax error is told in one line and shown in the next; an unclosed quote is told twice.
	for i := at - 1; i >= 0 && i >= at-maxFollowUp; i-- {
		before := errorLine().FindStringSubmatch(lines[i])
		if before == nil || before[1] != m[1] || !isSyntax(before[3]) {
			break
		}
		m, at = before, i
	}
	name, value := split(m[3])
	return trace.Exception(name, []string{value}, lines[at:])
}

func isSyntax(message string) bool {
	return strings.HasPrefix(message, syntaxName) || strings.HasPrefix(message, "unexpected EOF") ||
		strings.HasPrefix(message, "conditional") || strings.HasPrefix(message, "unexpected")
}

func split(message string) (name, value string) {
	message, _, _ = strings.Cut(message, " (error token is ") // of arithmetic
	if isSyntax(message) {
		rest := strings.TrimPrefix(message, syntaxName)
		return syntaxName, strings.TrimLeft(rest, ": ")
	}
	for _, c := range complaints {
		if before, ok := strings.CutSuffix(message, c); ok && (before == "" || strings.HasSuffix(before, ": ")) {
			return c, strings.TrimSuffix(before, ": ")
		}
	}
	return otherName, message
}
