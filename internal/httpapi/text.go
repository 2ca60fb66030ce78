package httpapi

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// cutRune says how many bytes at the end of p are the beginning of a character whose rest may follow.
func cutRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		c := p[len(p)-n]
		if !utf8.RuneStart(c) {
			continue
		}
		if c >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
			return n
		}
		return 0
	}
	return 0
}

// shown is one captured stream as an answer shows it.
type shown struct {
	text      string // with a line about the gap, and U+FFFD for what is not UTF-8
	exact     []byte // head and tail as they were; nil where the text says it all
	truncated bool
	dropped   int64 // bytes that are in neither
	gap       int64 // where in exact they are missing
}

// show renders a stream. The engine cuts between characters, so a gap alone never makes text invalid.
func show(c sandbox.Captured) shown {
	head, tail := c.Head, c.Tail
	s := shown{dropped: c.Dropped, truncated: c.Dropped > 0}
	var text strings.Builder
	text.Grow(len(head) + len(tail) + 64)
	text.Write(head)
	if s.truncated {
		if len(head) > 0 && head[len(head)-1] != '\n' {
			text.WriteByte('\n')
		}
		text.WriteString("[... " + strconv.FormatInt(s.dropped, 10) + " bytes dropped ...]\n")
	}
	text.Write(tail)
	s.text = text.String()
	if !utf8.Valid(head) || !utf8.Valid(tail) {
		s.text = strings.ToValidUTF8(s.text, "\uFFFD")
		s.exact = append(append(make([]byte, 0, len(head)+len(tail)), head...), tail...)
		if s.truncated {
			s.gap = int64(len(head))
		}
	}
	return s
}
