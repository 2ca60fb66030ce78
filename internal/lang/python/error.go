package python

import (
	"strings"

	"github.com/glovebox-dev/glovebox/internal/lang/trace"
	"github.com/glovebox-dev/glovebox/sandbox"
)

const (
	header      = "Traceback (most recent call last):"
	groupHeader = "  + Exception Group Traceback (most recent call last):"
)

// What CPython prints between two exceptions of a chain.
const (
	causeText   = "The above exception was the direct cause of the following exception:"
	contextText = "During handling of the above exception, another exception occurred:"
)

var (
	// exceptionLine is "module.Class: value" or "Class" alone; local classes have "<locals>" in their names.
	exceptionLine = trace.Pattern(`^([\pL_][\pL\pN_.<>]*)(?:: ?(.*))?$`)
	syntaxLine    = trace.Pattern(`^(SyntaxError|IndentationError|TabError): (.*)$`)
	fileLine      = trace.Pattern(`^  File ".*", line \d+$`)
)

// ParseError finds the uncaught exception in the end of stderr, or returns nil. It reads what CPython prints: tracebacks,
// chained ones, exception groups, and syntax errors of the program itself, which have no header. A SystemExit with a message
// prints the message only, and is no exception.
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

// parseTraceback reads the traceback whose header is at lines[at]: indented frames, then the exception.
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

// valueEnd returns the end of a value of several lines. It goes on to the end of stderr, but for what the interpreter says
// when it shuts down.
func valueEnd(lines []string, from int) int {
	for i := from; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "Exception ignored in") || strings.HasPrefix(lines[i], "sys:1: ") {
			return i
		}
	}
	return len(lines)
}

// chainStart returns the header of the first exception of the chain that ends with the one whose header is at lines[at].
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

// parseGroup reads an exception group, whose lines stand behind "  | ". The exceptions within it are part of its traceback.
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

// parseSyntax reads a syntax error of the program itself: the file and the line, the source and a marker, then the error at
// lines[at]. Some have the error alone.
func parseSyntax(lines []string, at int) *sandbox.Exception {
	const most = 4 // the lines above the error: the file, the source, a marker, and one to spare
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
