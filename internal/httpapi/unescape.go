package httpapi

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

var shortEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape resolves the escapes of a JSON string. It refuses a lone surrogate: encoding/json replaces it with U+FFFD,
// which would run other code than was sent.
func (d *decoder) unescape(raw []byte) (string, error) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		c := raw[i+1] // in range: a backslash is never the last byte before the closing quote
		if short, ok := shortEscapes[c]; ok {
			out = append(out, short)
			i += 2
			continue
		}
		r, ok := hexEscape(raw[i:])
		if !ok {
			return "", d.fail("a string holds an unknown escape")
		}
		i += 6
		if utf16.IsSurrogate(r) {
			low, ok := hexEscape(raw[i:])
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return "", d.fail("a string holds half of a surrogate pair, which is no character")
			}
			i += 6
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), nil
}

// hexEscape reads \uXXXX at the start of s.
func hexEscape(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 32)
	return rune(n), err == nil
}
