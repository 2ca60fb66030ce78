package javascript

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Names of exceptions without a name.
const (
	thrownValue  = "Uncaught"                    // throw 1
	rejectedName = "UnhandledPromiseRejection"   // Promise.reject(1)
	traceHint    = "(Use `node --trace-uncaught" // Node adds it below a thrown value
)

var (
	versionLine = trace.Pattern(`^Node\.js v\d+\.\d+\.\d+`)
	markerLine  = trace.Pattern(`^[ \t]*\^+$`)
	placeLine   = trace.Pattern(`^.+:\d+$`)
	frameLine   = trace.Pattern(`^    at .`)
	// errorLine matches "Name: value", "Name [CODE]: value" or "Name", in brackets where the error has no stack.
	errorLine = trace.Pattern(`^\[?(?:Uncaught )?([\pL_$][\pL\pN_.$]*)(?: \[[\pL\pN_$]+\])?(?:: ?(.*))?$`)
)

// ParseError returns the uncaught exception at the end of stderr, or nil. Node prints the place, the source line, a
// marker of carets, the inspected error, and its own version. Without a marker, ParseError returns an error with a
// stack that the program itself printed last (console.error(err); process.exit(1)).
func ParseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	crashed := len(lines) > 0 && versionLine().MatchString(lines[len(lines)-1])
	if crashed {
		lines = trimBlank(lines[:len(lines)-1])
	}
	if crashed {
		for i := len(lines) - 2; i >= 0; i-- {
			if markerLine().MatchString(lines[i]) {
				return parseCrash(lines, i)
			}
		}
	}
	return parsePrinted(lines, crashed)
}

// parseCrash parses the error below the marker at lines[at].
func parseCrash(lines []string, at int) *sandbox.Exception {
	start := at
	for i := at - 1; i >= 0 && i >= at-2; i-- {
		if placeLine().MatchString(lines[i]) {
			start = i
		}
	}
	body := at + 1
	for body < len(lines) && lines[body] == "" {
		body++
	}
	if body == len(lines) {
		return nil
	}
	return parseError(lines[start:], body-start, thrownValue)
}

// parsePrinted parses an error at the end of the output. Its first line precedes the last group of frames.
func parsePrinted(lines []string, crashed bool) *sandbox.Exception {
	last := len(lines) - 1
	for last >= 0 && !frameLine().MatchString(lines[last]) {
		if !crashed && !belongsToStack(lines[last]) {
			return nil
		}
		last--
	}
	for i := last; i >= 0; i-- {
		if frameLine().MatchString(lines[i]) || belongsToStack(lines[i]) {
			continue
		}
		if m := errorLine().FindStringSubmatch(lines[i]); m != nil && strings.HasSuffix(m[1], "Error") {
			return parseError(lines[i:], 0, m[1])
		}
		if last-i > maxStack {
			break
		}
	}
	return nil
}

// maxStack limits the lines from the first line of an error to its last frame.
const maxStack = 200

// belongsToStack reports whether a line may be among or below the frames: properties and causes of the error.
func belongsToStack(line string) bool {
	return strings.HasPrefix(line, "  ") || line == "}" || line == ""
}

// parseError parses the error whose first line is block[at]. fallback names a thrown value that is not an error.
func parseError(block []string, at int, fallback string) *sandbox.Exception {
	end := at + 1
	for end < len(block) && !frameLine().MatchString(block[end]) && !strings.HasPrefix(block[end], traceHint) {
		end++
	}
	first := block[at]
	value := append([]string(nil), block[at+1:end]...)
	if strings.HasPrefix(first, "["+rejectedName+": ") {
		text := strings.TrimSuffix(strings.TrimPrefix(first, "["+rejectedName+": "), " {")
		return trace.Exception(rejectedName, []string{strings.TrimSuffix(text, "]")}, block)
	}
	m := errorLine().FindStringSubmatch(first)
	named := m != nil && (end < len(block) && frameLine().MatchString(block[end]) || first[0] == '[')
	if !named {
		return trace.Exception(fallback, append([]string{first}, value...), withoutHint(block))
	}
	text := m[2]
	if first[0] == '[' { // an error without a stack: "[Error: text] {", then its properties
		value = nil
		text = strings.TrimSuffix(strings.TrimSuffix(text, " {"), "]")
	}
	return trace.Exception(m[1], append([]string{text}, value...), block)
}

func withoutHint(block []string) []string {
	for i, line := range block {
		if strings.HasPrefix(line, traceHint) {
			return trimBlank(block[:i])
		}
	}
	return block
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
