package answer

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// rendered is a captured stream as text, with a line for the gap and U+FFFD for bytes that are not UTF-8.
type rendered struct {
	text string
	api.Stream
}

// plain reports whether the text is the whole output.
func (s *rendered) plain() bool { return !s.Truncated && s.Base64 == nil }

// Text renders a captured stream as text: a line says where and how many bytes were dropped, and U+FFFD replaces bytes
// that are not UTF-8.
func Text(c sandbox.Captured) string { return render(c).text }

// render renders a stream. The engine cuts between characters, so a gap alone never makes text invalid.
func render(c sandbox.Captured) rendered {
	head, tail := c.Head, c.Tail
	s := rendered{Stream: api.Stream{DroppedBytes: c.Dropped, Truncated: c.Dropped > 0}}
	var text strings.Builder
	text.Grow(len(head) + len(tail) + 64)
	text.Write(head)
	if s.Truncated {
		if len(head) > 0 && head[len(head)-1] != '\n' {
			text.WriteByte('\n')
		}
		text.WriteString(Marker(c.Dropped))
	}
	text.Write(tail)
	s.text = text.String()
	if !utf8.Valid(head) || !utf8.Valid(tail) {
		s.text = strings.ToValidUTF8(s.text, "\uFFFD")
		s.Base64 = append(append(make([]byte, 0, len(head)+len(tail)), head...), tail...)
		if s.Truncated {
			s.DroppedAt = int64(len(head))
		}
	}
	return s
}

// Marker is the line in truncated text where bytes were dropped.
func Marker(dropped int64) string {
	return "[... " + strconv.FormatInt(dropped, 10) + " bytes dropped ...]\n"
}
