// Package terminal writes to terminals and reads what users type. Text from a sandbox must not control the terminal.
package terminal

import (
	"os"
	"strings"
	"unicode"
)

// Colour is a sequence that sets the colour of a terminal; Plain changes nothing.
type Colour string

// The colours.
const (
	Plain  Colour = ""
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Faint  Colour = "\x1b[2m"
	Reset         = "\x1b[0m"
)

// ClearLine moves the cursor to the start of its line and clears the line.
const ClearLine = "\r\x1b[K"

// Is reports whether f is a character device other than the null device.
func Is(f any) bool {
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

// Visible replaces the control characters in text from a sandbox, except line breaks and tabs.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// VisibleName is Visible for a name within one line: a line break could fake a message of Fumehood, and marks of text
// direction could fake another name.
func VisibleName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, name)
}

// OneLine is Visible for text that goes into one line.
func OneLine(text string) string {
	return Visible(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// Quote joins words so that a shell reads the same words.
func Quote(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]#~`!{}") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
