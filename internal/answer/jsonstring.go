package answer

import "unicode/utf8"

// plain has the bytes that stand for themselves in a JSON string.
var plain = func() (is [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

const hexDigits = "0123456789abcdef"

// AppendText appends text as a JSON string, as Encode would: most bytes of a server are output, and this is
// several times faster. Bytes that are not UTF-8 become U+FFFD.
func AppendText(b, text []byte) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		if plain[text[i]] {
			i++
			continue
		}
		c, size := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRune(text[i:])
			if (c != utf8.RuneError || size > 1) && c != '\u2028' && c != '\u2029' {
				i += size
				continue
			}
		}
		b = append(b, text[start:i]...)
		b = appendEscape(b, c)
		i += size
		start = i
	}
	return append(append(b, text[start:]...), '"')
}

func appendEscape(b []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', byte(c))
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', hexDigits[c>>12&15], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15])
}
