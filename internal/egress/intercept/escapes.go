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

// maxEscape is the most bytes of an escape that is decoded. The longest is a name of HTML.
const maxEscape = len("&DiacriticalGrave;")

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
	if n := digitsAt(b[:min(len(b), len(`\101`))], 1, 8); n > 0 {
		c, _ := number(b, 1, n, 8)
		return append(out, byte(c)), 1 + n
	}
	return append(out, b[1]), 2
}

// namedReferences are the names of characters of ASCII in HTML, of which XML has five
// (https://html.spec.whatwg.org/#named-character-references). One stands for two characters.
var namedReferences = map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'",
	"AMP": "&", "LT": "<", "GT": ">", "QUOT": `"`, "Tab": "\t", "excl": "!", "num": "#", "dollar": "$", "percnt": "%",
	"lpar": "(", "rpar": ")", "ast": "*", "midast": "*", "plus": "+", "comma": ",", "period": ".", "sol": "/",
	"colon": ":", "semi": ";", "equals": "=", "quest": "?", "commat": "@", "lbrack": "[", "lsqb": "[", "bsol": `\`,
	"rbrack": "]", "rsqb": "]", "Hat": "^", "lowbar": "_", "UnderBar": "_", "grave": "`", "DiacriticalGrave": "`",
	"lbrace": "{", "lcub": "{", "verbar": "|", "vert": "|", "VerticalLine": "|", "rbrace": "}", "rcub": "}",
	"fjlig": "fj"}

// unendedReferences are the names that HTML also reads without a semicolon.
var unendedReferences = []string{"amp", "lt", "gt", "quot", "AMP", "LT", "GT", "QUOT"}

// decodeReference decodes a reference of HTML or XML: by number, or by the name of characters of ASCII.
func decodeReference(out, b []byte) ([]byte, int) {
	b = b[:min(len(b), maxEscape)]
	if len(b) > 2 && b[1] == '#' {
		return decodeNumbered(out, b)
	}
	if end := bytes.IndexByte(b, ';'); end > 0 {
		if text := namedReferences[string(b[1:end])]; text != "" {
			return append(out, text...), end + 1
		}
	}
	for _, name := range unendedReferences {
		if bytes.HasPrefix(b[1:], []byte(name)) {
			return append(out, namedReferences[name]...), 1 + len(name)
		}
	}
	return out, 0
}

// decodeNumbered decodes a reference by number. XML requires the semicolon at its end, and HTML does not.
func decodeNumbered(out, b []byte) ([]byte, int) {
	at, base := len("&#"), rune(10)
	if b[at]|' ' == 'x' {
		at, base = len("&#x"), 16
	}
	end := at + digitsAt(b, at, base)
	for at < end-1 && b[at] == '0' {
		at++
	}
	c, ok := number(b, at, end-at, base)
	switch {
	case !ok || end == maxEscape: // it may go on
		return out, 0
	case end < len(b) && b[end] == ';':
		end++
	}
	return utf8.AppendRune(out, c), end
}

// digitsAt returns how many digits are at a position of a text.
func digitsAt(b []byte, at int, base rune) (n int) {
	for at+n < len(b) {
		if _, ok := number(b, at+n, 1, base); !ok {
			break
		}
		n++
	}
	return n
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
