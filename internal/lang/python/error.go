package python

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	header      = "Traceback (most recent call last):"
	groupHeader = "  + Exception Group Traceback (most recent call last):"
)

// CPython prints these lines between two exceptions of a chain.
const (
	causeText   = "The above exception was the direct cause of the following exception:"
	contextText = "During handling of the above exception, another exception occurred:"
)

var (
	// exceptionLine matches "module.Class: value" or "Class". Names of local classes contain "<locals>".
	exceptionLine = trace.Pattern(`^([\pL_][\pL\pN_.<>]*)(?:: ?(.*))?$`)
	syntaxLine    = trace.Pattern(`^(SyntaxError|IndentationError|TabError): (.*)$`)
	fileLine      = trace.Pattern(`^  File ".*", line \d+$`)
)

// ParseError returns the uncaught exception at the end of stderr, or nil. It parses CPython's tracebacks, including
// chains and exception groups, and syntax errors of the program itself, which have no header. A SystemExit only prints
// its message, and is not an exception.
func ParseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		switch {
		case lines[i] == header:
			return parseTraceback(lines, i)
		case lines[i] == groupHeader:
			return parseGroup(lines, i)
		case syntaxLine().MatchString(lines[i]):
			if e := parseSyntax(lines, i); e != nil {
				return e
			}
		}
	}
	return nil
}

// parseTraceback parses the traceback whose header is at lines[at]: indented frames, then the exception.
func parseTraceback(lines []string, at int) *sandbox.Exception {
	i := at + 1
	for i < len(lines) && strings.HasPrefix(lines[i], "  ") {
		i++
	}
	if i == len(lines) {
		return nil
	}
	m := exceptionLine().FindStringSubmatch(lines[i])
	if m == nil {
		return nil
	}
	end := valueEnd(lines, i+1)
	value := append([]string{m[2]}, lines[i+1:end]...)
	return trace.Exception(m[1], value, lines[chainStart(lines, at):end])
}

// valueEnd returns the end of a value with several lines: the end of stderr, or the interpreter's messages at its
// shutdown.
func valueEnd(lines []string, from int) int {
	for i := from; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "Exception ignored in") || strings.HasPrefix(lines[i], "sys:1: ") {
			return i
		}
	}
	return len(lines)
}

// chainStart returns the first header of the chain of exceptions that ends with the header at lines[at].
func chainStart(lines []string, at int) int {
	for at >= 3 && lines[at-1] == "" && (lines[at-2] == causeText || lines[at-2] == contextText) {
		i := at - 3
		for i >= 0 && lines[i] != header && lines[i] != groupHeader {
			i--
		}
		if i < 0 {
			break
		}
		at = i
	}
	return at
}

// parseGroup parses an exception group, whose lines begin with "  | ". Its inner exceptions are part of its traceback.
func parseGroup(lines []string, at int) *sandbox.Exception {
	const bar = "  | "
	i := at + 1
	for i < len(lines) && strings.HasPrefix(lines[i], bar+" ") {
		i++
	}
	if i == len(lines) || !strings.HasPrefix(lines[i], bar) {
		return nil
	}
	m := exceptionLine().FindStringSubmatch(lines[i][len(bar):])
	if m == nil {
		return nil
	}
	value := []string{m[2]}
	for i++; i < len(lines) && strings.HasPrefix(lines[i], bar); i++ {
		value = append(value, lines[i][len(bar):])
	}
	return trace.Exception(m[1], value, lines[chainStart(lines, at):])
}

// parseSyntax parses a syntax error of the program itself: file and line, source and marker, then the error at
// lines[at]. Some consist only of the error.
func parseSyntax(lines []string, at int) *sandbox.Exception {
	const most = 4 // lines above the error: file, source, marker, and one spare
	m := syntaxLine().FindStringSubmatch(lines[at])
	for i := at - 1; i >= 0 && i >= at-most; i-- {
		if lines[i] == header {
			return nil
		}
		if fileLine().MatchString(lines[i]) {
			if i > 0 && strings.HasPrefix(lines[i-1], "  ") || i > 0 && lines[i-1] == header {
				return nil // the last frame of a traceback
			}
			end := valueEnd(lines, at+1)
			return trace.Exception(m[1], append([]string{m[2]}, lines[at+1:end]...), lines[i:end])
		}
	}
	if at == 0 && len(lines) == 1 {
		return trace.Exception(m[1], []string{m[2]}, lines)
	}
	return nil
}
