// Package trace holds the common parts of the error parsers of languages, such as limits for hostile bytes.
package trace

import (
	"bytes"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of input and output, in bytes. Programs control their stderr, so parsers read only its end, once, and copy at
// most this much.
const (
	MaxInput     = 64 << 10
	MaxName      = 256
	MaxValue     = 8 << 10
	MaxTraceback = 32 << 10
)

// Lines returns the lines of the last MaxInput bytes of stderr, without line ends and final blank lines. It drops a
// line that the limit cuts.
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

// Exception joins the parts of an exception and truncates each to its limit: names and values keep their start,
// tracebacks keep their end, which has the error.
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
