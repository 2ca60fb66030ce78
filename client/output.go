package client

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// The JSON around the text of an ordinary output event.
var (
	pieceTime   = []byte(`{"time_ms":`)
	pieceOffset = []byte(`,"offset":`)
	pieceText   = []byte(`,"text":"`)
	pieceEnd    = []byte(`"}`)
)

// quickOutput parses an ordinary output event and appends its text to buf, several times as fast as encoding/json. ok
// is false for any other JSON, and for invalid JSON.
func quickOutput(event, buf []byte) (offset int64, text []byte, ok bool) {
	rest, ok := bytes.CutPrefix(event, pieceTime)
	if !ok {
		return 0, buf, false
	}
	timeMS, rest, ok := bytes.Cut(rest, pieceOffset)
	if !ok || len(bytes.Trim(timeMS, "0123456789.")) > 0 {
		return 0, buf, false
	}
	digits, rest, ok := bytes.Cut(rest, pieceText)
	if !ok {
		return 0, buf, false
	}
	offset, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || !bytes.HasSuffix(rest, pieceEnd) {
		return 0, buf, false
	}
	rest = rest[:len(rest)-len(pieceEnd)]
	if !utf8.Valid(rest) {
		return 0, buf, false
	}
	text, ok = appendUnescaped(buf, rest)
	return offset, text, ok
}

// appendUnescaped appends the content of a JSON string without its quotes. ok is false for a rare escape.
func appendUnescaped(b, s []byte) (_ []byte, ok bool) {
	for start, i := 0, 0; ; i++ {
		if i == len(s) {
			return append(b, s[start:]...), true
		}
		if c := s[i]; c != '\\' {
			if c == '"' || c < ' ' {
				return b, false
			}
			continue
		}
		b = append(b, s[start:i]...)
		c, size := escaped(s[i+1:])
		if size == 0 {
			return b, false
		}
		b = append(b, c)
		i += size
		start = i + 1
	}
}

// escaped returns the byte that an escape stands for, and its size without the backslash; 0 for those that are rare.
func escaped(s []byte) (c byte, size int) {
	if len(s) == 0 {
		return 0, 0
	}
	switch s[0] {
	case '"', '\\':
		return s[0], 1
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		if len(s) >= 5 {
			if n, err := strconv.ParseUint(string(s[1:5]), 16, 16); err == nil && n < utf8.RuneSelf {
				return byte(n), 5
			}
		}
	}
	return 0, 0
}
