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
	size        int    // bytes
	placeholder string
	// The characters before and after the text, if they are of Base64, have further bits of the value.
	before, after bool
}

// finder finds values in text in one pass, in any letter case. It finds them as the gate encodes them too: in Base64,
// forms and JSON. Its running time does not reveal how many characters of a value a text contains: it looks up the last
// eight bytes of a pattern at once, by a random hash, and then compares hashes of whole patterns. So it does not
// grow with the length of patterns either, of which hostile ones could begin and end alike.
type finder struct {
	key, base uint64
	seen      [1 << hashBits]bool // by the hash of the last bytes
	patterns  map[uint64][]pattern
	longest   int // bytes of a pattern
}

const (
	hashBits = 14
	tailSize = rules.MinValue
	upper    = 0x2020202020202020 // bits that letters of upper case lack
	prime    = 1<<61 - 1          // of the hashes of patterns, which are polynomials in base
)

// newFinder makes a finder for the values that are known.
func newFinder(secrets []rules.Secret) *finder {
	f := &finder{key: rand.Uint64() | 1, base: 1<<32 + rand.Uint64N(prime-1<<32), patterns: map[uint64][]pattern{}}
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
	f.add(value, pattern{placeholder: placeholder})
	for _, encode := range encodings {
		f.add(encode(value), pattern{placeholder: placeholder})
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			f.addBase64(alphabet, before, value, placeholder)
		}
	}
}

// addBase64 adds the characters that are in the Base64 of every text with the value after a number of bytes, modulo 3.
func (f *finder) addBase64(alphabet *base64.Encoding, before int, value, placeholder string) {
	count := (before + len(value)) * 8 // of bits
	text := alphabet.EncodeToString([]byte("..."[:before] + value))
	f.add(text[(before*8+5)/6:count/6], pattern{placeholder: placeholder, before: before > 0, after: count%6 > 0})
}

// add adds a pattern of a text.
func (f *finder) add(text string, p pattern) {
	if len(text) > maxPattern {
		return
	}
	p.size, p.power = len(text), 1
	for i := range len(text) {
		p.hash = f.appendHash(p.hash, text[i])
	}
	for n, square := p.size, f.base; n > 0; n, square = n/2, multiply(square, square) {
		if n%2 > 0 {
			p.power = multiply(p.power, square)
		}
	}
	tail := binary.LittleEndian.Uint64([]byte(text[len(text)-tailSize:])) | upper
	if slices.Contains(f.patterns[tail], p) {
		return // encodings agree
	}
	f.seen[f.hash(tail)], f.longest = true, max(f.longest, p.size)
	f.patterns[tail] = append(f.patterns[tail], p)
}

func (f *finder) hash(tail uint64) uint64 { return tail * f.key >> (64 - hashBits) }

// appendHash returns the hash of a text and one more byte.
func (f *finder) appendHash(hash uint64, c byte) uint64 {
	return reduce(multiply(hash, f.base) + uint64(lower(c)) + 1)
}

// multiply multiplies modulo prime.
func multiply(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return reduce(low&prime + (high<<3 | low>>61))
}

// reduce returns a number below twice prime modulo prime.
func reduce(a uint64) uint64 {
	if a >= prime {
		return a - prime
	}
	return a
}

// hashes are of the beginnings of a text, by their lengths.
type hashes []uint64

var hashesPool = sync.Pool{New: func() any { return new(hashes) }}

// read computes the hashes for a text.
func (h *hashes) read(f *finder, b []byte) {
	*h = append((*h)[:0], 0)
	for _, c := range b {
		*h = append(*h, f.appendHash((*h)[len(*h)-1], c))
	}
}

// has reports whether a pattern ends at a position.
func (h hashes) has(p *pattern, end int) bool {
	return reduce(h[end]+prime-multiply(h[end-p.size], p.power)) == p.hash
}

// find calls found with each part of b that reveals a value and whose pattern ends at one of the positions from..to, in
// the order of these positions. Parts may overlap.
func (f *finder) find(b []byte, from, to int, found func(span)) {
	var sums *hashes // from a position on; nil until a pattern may end here
	begin := 0
	for end := max(from, tailSize); end <= to; end++ {
		tail := binary.LittleEndian.Uint64(b[end-tailSize:]) | upper
		if !f.seen[f.hash(tail)] {
			continue
		}
		all := f.patterns[tail]
		if len(all) > 0 && sums == nil {
			sums = hashesPool.Get().(*hashes)
			defer hashesPool.Put(sums)
			begin = max(0, end-f.longest)
			sums.read(f, b[begin:to])
		}
		for i := range all {
			if p := &all[i]; p.size <= end && sums.has(p, end-begin) {
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

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}
