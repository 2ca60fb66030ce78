package httpapi

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape resolves the escapes of a JSON string. It refuses a lone surrogate: encoding/json replaces it with U+FFFD,
// which would run other code than was sent.
func (d *decoder) unescape(raw []byte) (string, error) {
	var out strings.Builder
	out.Grow(len(raw))
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			out.Write(raw)
			return out.String(), nil
		}
		out.Write(raw[:at])
		raw = raw[at:]
		// in range: a backslash is never the last byte before the closing quote
		if short := shortEscape(raw[1]); short != 0 {
			out.WriteByte(short)
			raw = raw[2:]
			continue
		}
		r, ok := hexEscape(raw)
		if !ok {
			return "", d.fail("a string holds an unknown escape")
		}
		raw = raw[6:]
		if utf16.IsSurrogate(r) {
			low, ok := hexEscape(raw)
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return "", d.fail("a string holds half of a surrogate pair, which is no character")
			}
			raw = raw[6:]
		}
		out.WriteRune(r)
	}
}

// shortEscape returns the character of an escape of two characters, or 0.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
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
