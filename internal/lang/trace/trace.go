// Package trace holds what the error parsers of the languages share: the bounds on the hostile bytes that they read and on
// what they hand back.
package trace

import (
	"bytes"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Bounds of what is read and of what is handed back, in bytes. A program chooses its stderr, so the parsers look at the end
// of it only, once, and copy no more than this.
const (
	MaxInput     = 64 << 10
	MaxName      = 256
	MaxValue     = 8 << 10
	MaxTraceback = 32 << 10
)

// Lines returns the lines of the end of stderr, at most MaxInput bytes of it, without line ends and without blank lines at
// the end. A line that the bound would cut in two is left out.
func Lines(stderr []byte) []string {
	if len(stderr) > MaxInput {
		stderr = stderr[len(stderr)-MaxInput:]
		_, stderr, _ = bytes.Cut(stderr, []byte("\n"))
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(stderr), "\uFFFD"), " \t\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return lines
}

// Exception joins the parts of an exception and cuts each to its bound: names and values keep their beginning, tracebacks
// their end, where the error is.
func Exception(name string, value, traceback []string) *sandbox.Exception {
	text := strings.Join(traceback, "\n")
	if len(text) > MaxTraceback {
		text = strings.ToValidUTF8(text[len(text)-MaxTraceback:], "")
	}
	return &sandbox.Exception{
		Name:      head(name, MaxName),
		Value:     head(strings.TrimRight(strings.Join(value, "\n"), " \t\n"), MaxValue),
		Traceback: text,
	}
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
