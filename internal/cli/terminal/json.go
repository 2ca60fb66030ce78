package terminal

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// JSON returns a writer of JSON that escapes the characters which could control a terminal or reorder its text, and
// which package encoding/json leaves as they are: DEL, the C1 controls (ECMA-48, section 5.3), and marks of text
// direction. They only occur in strings. Each write must have whole characters, as those of a json.Encoder do.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	var out bytes.Buffer
	rest := text
	for len(rest) > 0 {
		i := bytes.IndexFunc(rest, func(r rune) bool {
			return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		})
		if i < 0 {
			break
		}
		r, size := utf8.DecodeRune(rest[i:])
		out.Write(rest[:i])
		fmt.Fprintf(&out, `\u%04x`, r)
		rest = rest[i+size:]
	}
	out.Write(rest)
	if _, err := j.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}
