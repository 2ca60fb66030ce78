package intercept

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// maxPattern is the most bytes of a pattern.
const maxPattern = rules.MaxEncoded

// pattern is a text that reveals a value.
type pattern struct {
	text        string // in lower case
	placeholder string
	// The characters before and after the text, if they are of Base64, have further bits of the value.
	before, after bool
}

// finder finds values in text in one pass, in any letter case. It finds them as the gate encodes them too: in Base64,
// forms and JSON. Its running time does not reveal how many characters of a value a text contains: it looks
// up the last eight bytes of a pattern at once, by a random hash, and then compares long blocks.
type finder struct {
	key      uint64
	seen     [1 << hashBits]bool // by the hash of the last bytes
	patterns map[uint64][]pattern
}

const (
	hashBits = 14
	tailSize = rules.MinValue
	block    = 64                 // bytes that are compared at once
	upper    = 0x2020202020202020 // bits that letters of upper case lack
)

// newFinder makes a finder for the values that are known.
func newFinder(secrets []rules.Secret) *finder {
	f := &finder{key: rand.Uint64() | 1, patterns: map[uint64][]pattern{}}
	for _, s := range secrets {
		if s.Value == "" {
			continue
		}
		f.addValue(s.Value, s.Placeholder)
		if read := asLatin1(s.Value); read != s.Value {
			f.addValue(read, s.Placeholder)
		}
	}
	return f
}

// addValue adds a value as it is and in all encodings, as far as patterns may be that long.
func (f *finder) addValue(value, placeholder string) {
	all := []pattern{{text: value, placeholder: placeholder}}
	for _, encode := range encodings {
		all = append(all, pattern{text: encode(value), placeholder: placeholder})
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			all = append(all, base64Pattern(alphabet, before, value, placeholder))
		}
	}
	for _, p := range all {
		if len(p.text) <= maxPattern {
			f.add(p)
		}
	}
}

// base64Pattern returns the characters that are in the Base64 of every text with the value after a number of bytes,
// modulo 3.
func base64Pattern(alphabet *base64.Encoding, before int, value, placeholder string) pattern {
	bits := (before + len(value)) * 8
	text := alphabet.EncodeToString([]byte("..."[:before] + value))
	return pattern{text: text[(before*8+5)/6 : bits/6], placeholder: placeholder,
		before: before > 0, after: bits%6 > 0}
}

func (f *finder) add(p pattern) {
	p.text = string(lowered([]byte(p.text)))
	tail := binary.LittleEndian.Uint64([]byte(p.text[len(p.text)-tailSize:])) | upper
	if slices.Contains(f.patterns[tail], p) {
		return // both alphabets agree
	}
	f.seen[f.hash(tail)] = true
	f.patterns[tail] = append(f.patterns[tail], p)
}

func (f *finder) hash(tail uint64) uint64 { return tail * f.key >> (64 - hashBits) }

// span is a part of a text that reveals a value.
type span struct {
	start, end  int
	placeholder string
}

// find calls found with each part of b that reveals a value and whose pattern ends at one of the positions from..to, in
// the order of these positions. Parts may overlap.
func (f *finder) find(b []byte, from, to int, found func(span)) {
	for end := max(from, tailSize); end <= to; end++ {
		tail := binary.LittleEndian.Uint64(b[end-tailSize:]) | upper
		if !f.seen[f.hash(tail)] {
			continue
		}
		for _, p := range f.patterns[tail] {
			if start := end - len(p.text); start >= 0 && same(b[start:end], p.text) {
				found(p.span(b, start, end))
			}
		}
	}
}

// span is the part to hide, where the pattern is found.
func (p *pattern) span(b []byte, start, end int) span {
	if p.before && start > 0 && isBase64(b[start-1]) {
		start--
	}
	if p.after && end < len(b) && isBase64(b[end]) {
		end++
	}
	return span{start, end, p.placeholder}
}

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("+/-_", c) >= 0
}

// same reports whether b is text, which is in lower case, in any letter case. Its time depends only on the number of
// equal blocks.
func same(b []byte, text string) bool {
	for len(text) > 0 {
		n := min(len(text), block)
		var different byte
		for i := range n {
			different |= lower(b[i]) ^ text[i]
		}
		if different != 0 {
			return false
		}
		b, text = b[n:], text[n:]
	}
	return true
}

func lowered(b []byte) []byte {
	for i, c := range b {
		b[i] = lower(c)
	}
	return b
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}
