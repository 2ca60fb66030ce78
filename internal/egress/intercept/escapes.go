package intercept

import (
	"bytes"
	"sort"
	"unicode/utf16"
	"unicode/utf8"
)

// escape is a way to write characters in a text. Encoders differ in the characters that they escape, so the finder
// reads the text as a decoder does.
type escape struct {
	begin byte // of each escape
	// decode decodes the escape at the beginning of b. It appends the result to out, and returns the size of the
	// escape, or 0 if b does not begin with one.
	decode func(out, b []byte) (_ []byte, size int)
}

var percents, backslashes, references = escape{'%', decodePercent}, escape{'\\', decodeBackslash},
	escape{'&', decodeReference}

// maxEscape is the most bytes of an escape that is decoded. The longest is a surrogate pair of JSON.
const maxEscape = len(`\ud834\udd1e`)

// decodePercent decodes an escape of URLs and forms, and of the function escape of ECMAScript (%u20ac).
func decodePercent(out, b []byte) ([]byte, int) {
	if c, ok := number(b, 1, 2, 16); ok {
		return append(out, byte(c)), len("%41")
	}
	return decodeUnits(out, b)
}

// decodeUnits decodes a character that is written as one or two code units of UTF-16.
func decodeUnits(out, b []byte) ([]byte, int) {
	const size = len(`\u0041`)
	c, ok := number(b, 2, 4, 16)
	if !ok || b[1] != 'u' {
		return out, 0
	}
	if low, ok := number(b, size+2, 4, 16); ok && b[size] == b[0] && b[size+1] == 'u' {
		if r := utf16.DecodeRune(c, low); r != utf8.RuneError {
			return utf8.AppendRune(out, r), 2 * size
		}
	}
	return utf8.AppendRune(out, c), size
}

// decodeBackslash decodes an escape of JSON, or of a string of ECMAScript, Python or C.
func decodeBackslash(out, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return out, 0
	}
	switch b[1] {
	case 'u':
		if out, size := decodeUnits(out, b); size > 0 {
			return out, size
		}
		if end := bytes.IndexByte(b[:min(len(b), maxEscape)], '}'); end > 0 && b[2] == '{' {
			if c, ok := number(b, 3, end-3, 16); ok {
				return utf8.AppendRune(out, c), end + 1
			}
		}
	case 'U':
		if c, ok := number(b, 2, 8, 16); ok {
			return utf8.AppendRune(out, c), len(`\U00000041`)
		}
	case 'x':
		if c, ok := number(b, 2, 2, 16); ok {
			return append(out, byte(c)), len(`\x41`)
		}
	case 't':
		return append(out, '\t'), 2
	case 'b', 'f', 'n', 'r':
		return append(out, '\n'), 2 // no value has any of these
	}
	if c, ok := number(b, 1, 3, 8); ok {
		return append(out, byte(c)), len(`\101`)
	}
	return append(out, b[1]), 2
}

// namedReferences are the names of characters of ASCII in HTML, of which XML has five
// (https://html.spec.whatwg.org/#named-character-references).
var namedReferences = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'',
	"AMP": '&', "LT": '<', "GT": '>', "QUOT": '"', "Tab": '\t', "excl": '!', "num": '#', "dollar": '$', "percnt": '%',
	"lpar": '(', "rpar": ')', "ast": '*', "midast": '*', "plus": '+', "comma": ',', "period": '.', "sol": '/',
	"colon": ':', "semi": ';', "equals": '=', "quest": '?', "commat": '@', "lbrack": '[', "lsqb": '[', "bsol": '\\',
	"rbrack": ']', "rsqb": ']', "Hat": '^', "lowbar": '_', "UnderBar": '_', "grave": '`', "lbrace": '{', "lcub": '{',
	"verbar": '|', "vert": '|', "rbrace": '}', "rcub": '}'}

// decodeReference decodes a reference of HTML or XML: by number, or by the name of a character of ASCII.
func decodeReference(out, b []byte) ([]byte, int) {
	end := bytes.IndexByte(b[:min(len(b), maxEscape)], ';')
	if end < 0 {
		return out, 0
	}
	c, ok := rune(0), false
	switch {
	case b[1] != '#':
		if c, ok := namedReferences[string(b[1:end])]; ok {
			return append(out, c), end + 1
		}
	case b[2]|' ' == 'x':
		c, ok = number(b, 3, end-3, 16)
	default:
		c, ok = number(b, 2, end-2, 10)
	}
	if !ok {
		return out, 0
	}
	return utf8.AppendRune(out, c), end + 1
}

// number returns the number of that many digits at a position of a text.
func number(b []byte, at, digits int, base rune) (n rune, ok bool) {
	if digits < 1 || digits > 8 || at+digits > len(b) {
		return 0, false
	}
	for _, c := range b[at : at+digits] {
		digit := base
		switch {
		case c >= '0' && c <= '9':
			digit = rune(c - '0')
		case c|' ' >= 'a' && c|' ' <= 'f':
			digit = rune(c|' ') - 'a' + 10
		}
		if digit >= base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, true
}

// decoded is a text without escapes of one kind.
type decoded struct {
	text []byte
	some []replaced // in the order of the text
}

// replaced is an escape and what stands for it.
type replaced struct{ begin, end, textBegin, textEnd int }

// read decodes a text.
func (d *decoded) read(b []byte, e *escape) {
	d.text, d.some = d.text[:0], d.some[:0]
	for at := 0; ; {
		next := bytes.IndexByte(b[at:], e.begin)
		if next < 0 {
			d.text = append(d.text, b[at:]...)
			return
		}
		d.text = append(d.text, b[at:at+next]...)
		at += next
		one := replaced{begin: at, textBegin: len(d.text)}
		text, size := e.decode(d.text, b[at:])
		if at += size; size == 0 {
			text, at = append(text, b[at]), at+1
		} else {
			one.end, one.textEnd = at, len(text)
			d.some = append(d.some, one)
		}
		d.text = text
	}
}

// beginOf returns where a byte of the text begins in the text with escapes.
func (d *decoded) beginOf(i int) int {
	n := sort.Search(len(d.some), func(n int) bool { return d.some[n].textBegin > i })
	if n == 0 {
		return i
	}
	if one := &d.some[n-1]; i >= one.textEnd {
		return one.end + i - one.textEnd
	}
	return d.some[n-1].begin
}

// endOf returns where the first bytes of the text, so many, end in the text with escapes.
func (d *decoded) endOf(i int) int {
	n := sort.Search(len(d.some), func(n int) bool { return d.some[n].textBegin >= i })
	if n == 0 {
		return i
	}
	one := &d.some[n-1]
	return one.end + max(i-one.textEnd, 0)
}

// upTo returns how many bytes of the text end at a position of the text with escapes or before it.
func (d *decoded) upTo(position int) int {
	n := sort.Search(len(d.some), func(n int) bool { return d.some[n].end > position })
	i := position
	if n > 0 {
		i = d.some[n-1].textEnd + position - d.some[n-1].end
	}
	if n < len(d.some) {
		i = min(i, d.some[n].textBegin)
	}
	return min(i, len(d.text))
}

// trailingBackslash is 1 if a text ends with the beginning of an escape: with an odd number of backslashes. Else it is
// 0.
func trailingBackslash(b []byte) int { return (len(b) - len(bytes.TrimRight(b, `\`))) % 2 }
