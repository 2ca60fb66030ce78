package intercept

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// maxPattern is the most bytes of a pattern.
const maxPattern = rules.MaxEncoded

// pattern is a text that reveals a value, by its hash in lower case.
type pattern struct {
	hash, power uint64 // power is base to the power of size
	tail        uint64 // the last bytes
	size        int    // bytes
	placeholder string
	// The characters before and after the text, if they are of Base64, have further bits of the value.
	before, after bool
}

// finder finds values in text in one pass, in any letter case. It finds them as the gate encodes them too: in Base64,
// forms and JSON. Its running time does not depend on how many characters of a value a text contains, nor on the length
// of patterns, of which hostile ones could begin and end alike: it compares hashes of whole patterns. Which patterns it
// compares at a position is a secret random function of the eight bytes before. That has only as many results as there
// are patterns, so its time reveals some bits of the end of a value.
type finder struct {
	patterns [][]pattern // by the hash of the last bytes
	shift    int         // 64 - shift bits are a hash
	longest  int         // bytes of a pattern, rounded up: its time tells no length of a value
}

const (
	rounding = 1 << 10
	tailSize = rules.MinValue
	upper    = 0x2020202020202020 // bits that letters of upper case lack
)

// The random numbers of the hashes, the same for all finders: several would reveal more. Those of whole patterns are
// polynomials in an odd base, modulo 2^64.
var tailKey, base = rand.Uint64() | 1, rand.Uint64() | 1

// patternSet has patterns without repetitions, since encodings agree.
type patternSet map[pattern]struct{}

// newFinder makes a finder for the values that are known.
func newFinder(secrets []rules.Secret) *finder {
	all := patternSet{}
	for _, s := range secrets {
		if s.Value == "" {
			continue
		}
		for _, read := range rules.Readings(s.Value) {
			all.addValue(read, s.Placeholder)
		}
	}
	count := bits.Len(uint(len(all)) / 2)
	f := &finder{patterns: make([][]pattern, 1<<count), shift: 64 - count}
	for p := range all {
		f.longest = max(f.longest, (p.size+rounding-1)/rounding*rounding)
		list := &f.patterns[f.hashTail(p.tail)]
		*list = append(*list, p)
	}
	return f
}

// addValue adds a value as it is, in Base64, and both as encoders write them.
func (all patternSet) addValue(value, placeholder string) {
	all.addEncoded(value, pattern{placeholder: placeholder})
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text, whole := rules.InBase64(alphabet, before, value)
			all.addEncoded(text, pattern{placeholder: placeholder, before: before > 0, after: !whole})
		}
	}
}

// unescaped are characters that no encoder replaces.
const unescaped = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// addEncoded adds a text as it is and in all encodings.
func (all patternSet) addEncoded(text string, p pattern) {
	all.add(text, p)
	if strings.Trim(text, unescaped) == "" {
		return
	}
	var known []string // encoders agree about most values, and hashes take long
	for _, encode := range encodings {
		if one := encode(text); one != text && !slices.Contains(known, one) {
			known = append(known, one)
			all.add(one, p)
		}
	}
}

// add adds a pattern of a text.
func (all patternSet) add(text string, p pattern) {
	if len(text) > maxPattern {
		return
	}
	p.size, p.power, p.tail = len(text), 1, tailOf([]byte(text))
	for i := range len(text) {
		p.hash, p.power = appendHash(p.hash, text[i]), p.power*base
	}
	all[p] = struct{}{}
}

// tailOf returns the last bytes of a text, in lower case.
func tailOf(b []byte) uint64 { return binary.LittleEndian.Uint64(b[len(b)-tailSize:]) | upper }

func (f *finder) hashTail(tail uint64) uint64 { return tail * tailKey >> f.shift }

// appendHash returns the hash of a text and one more byte.
func appendHash(hash uint64, c byte) uint64 { return hash*base + digits[c] }

// digits are those of the hashes, for each byte: the same for a letter of upper and of lower case. A branch would take
// longer where cases alternate.
var digits = func() (all [256]uint64) {
	for i := range all {
		all[i] = uint64(i) + 1
	}
	copy(all['A':'Z'+1], all['a':])
	return all
}()

// hashes are of the beginnings of a text, by their lengths.
type hashes []uint64

var hashesPool = sync.Pool{New: func() any { return new(hashes) }}

// read computes the hashes for a text.
func (h *hashes) read(b []byte) {
	all := slices.Grow((*h)[:0], len(b)+1)[:len(b)+1]
	hash := uint64(0)
	all[0] = hash
	for i, c := range b {
		hash = appendHash(hash, c)
		all[i+1] = hash
	}
	*h = all
}

// has reports whether a pattern ends at a position.
func (h hashes) has(p *pattern, end int) bool {
	return p.size <= end && h[end]-h[end-p.size]*p.power == p.hash
}

// find calls found with each part of b that reveals a value and whose pattern ends at one of the positions from..to, in
// the order of these positions. Parts may overlap.
func (f *finder) find(b []byte, from, to int, found func(span)) {
	sums := hashesPool.Get().(*hashes)
	defer hashesPool.Put(sums)
	for from = max(from, tailSize); from <= to; from += cleanSize { // hashes take eight times the memory of a text
		f.findIn(b, from, min(to, from+cleanSize-1), sums, found)
	}
}

func (f *finder) findIn(b []byte, from, to int, sums *hashes, found func(span)) {
	begin := max(0, from-f.longest)
	sums.read(b[begin:to])
	for end := from; end <= to; end++ {
		list := f.patterns[f.hashTail(tailOf(b[:end]))]
		for i := range list {
			if p := &list[i]; sums.has(p, end-begin) {
				found(p.span(b, end-p.size, end))
			}
		}
	}
}

// span is a part of a text that reveals a value.
type span struct {
	start, end  int
	placeholder string
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
