package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// colour is a sequence that sets the colour of a terminal; "" leaves it.
type colour string

const (
	plain  colour = ""
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	faint  colour = "\x1b[2m"
	reset         = "\x1b[0m"
)

// isTerminal reports whether f is a character device other than the null device.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok || file == nil {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// paint colours text for w, if that is a terminal and NO_COLOR is not set.
func (a *app) paint(w io.Writer, c colour, text string) string {
	if noColor, _ := a.LookupEnv("NO_COLOR"); c == plain || noColor != "" || !isTerminal(w) {
		return text
	}
	if term, _ := a.LookupEnv("TERM"); term == "dumb" {
		return text
	}
	return string(c) + text + reset
}

// say writes one line to stderr.
func (a *app) say(c colour, format string, args ...any) {
	fmt.Fprintln(a.Stderr, a.paint(a.Stderr, c, fmt.Sprintf(format, args...)))
}

// visible replaces control characters in text from a sandbox, so that they reach no terminal.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// visibleName is visible for a name within one line: a line break could fake a message of Fumehood, and marks of text direction another
// name.
func visibleName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return '\uFFFD'
		}
		return r
	}, name)
}

func (a *app) printJSON(value any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
