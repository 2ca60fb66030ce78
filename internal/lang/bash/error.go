package bash

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// errorLine matches a message of Bash itself: "PATH: line N: ", often followed by the subject.
var errorLine = trace.Pattern(`^([^:]+): line (\d+): (.+)$`)

const (
	syntaxName  = "syntax error"
	otherName   = "error"
	maxFollowUp = 3 // further messages of one error, such as the source line of a syntax error
)

// complaints lists the ends of Bash's messages that name the error. The subject precedes them.
var complaints = []string{
	"command not found", "unbound variable", "No such file or directory", "Permission denied", "Is a directory",
	"bad substitution", "readonly variable", "ambiguous redirect", "division by 0", "not a valid identifier",
	"cannot execute binary file: Exec format error", "cannot execute: required file not found",
	"Argument list too long",
	"numeric argument required", "parameter null or not set", "parameter not set", "Cannot allocate memory",
	"Resource temporarily unavailable", "No space left on device",
}

// ParseError returns the last message of the shell itself at the end of stderr, or nil. The name of the exception is
// the error ("command not found", "syntax error"), its value is the subject. Messages of commands are ignored.
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
	// The second line of a syntax error has its source. An unclosed quote has two messages.
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
