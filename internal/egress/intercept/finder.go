package intercept

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

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
	cut, cutEnd   bool // the character before the text, or after it, has the beginning of the value, or the end
}

// finder finds values in text, in any letter case, also in Base64. It searches the text as it is, and once more for
// each kind of escapes in it, as decoders read it. The running time of a search does not depend on how many
// characters of a value a text contains, nor on the length of patterns, of which hostile ones could begin and end
// alike: it compares hashes of whole patterns. Which patterns it compares at a position is a secret random function of
// the eight bytes before. That has only as many results as there are patterns, so its time reveals some bits of the
// end of a value.
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

// patternSet has patterns without repetitions.
type patternSet map[pattern]struct{}

// newFinder makes a finder for the values that are known.
func newFinder(secrets []rules.Secret) *finder {
	all := patternSet{}
	for _, s := range secrets {
		if s.Value == "" {
			continue
		}
		for _, text := range inCases(s.Value) {
			for _, read := range rules.Readings(text) {
				all.addValue(read, s.Placeholder)
			}
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

// inCases returns a value, and its texts in lower and in upper case if it has letters beyond ASCII, which the hashes
// distinguish.
func inCases(value string) []string {
	if !strings.ContainsFunc(value, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return []string{value}
	}
	return []string{value, strings.ToLower(value), strings.ToUpper(value)}
}

// addValue adds a value as it is, as a form, and in Base64.
func (all patternSet) addValue(value, placeholder string) {
	form := strings.ReplaceAll(value, " ", "+")
	for _, text := range []string{value, form} {
		all.add(text, pattern{placeholder: placeholder})
		for _, e := range kinds { // some encoders do not escape what seems to be an escape
			var d decoded
			d.read([]byte(text), e)
			all.add(string(d.text), pattern{placeholder: placeholder})
		}
		all.addCut(text, placeholder)
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text, whole := rules.InBase64(alphabet, before, value)
			all.add(text, pattern{placeholder: placeholder, before: before > 0, after: !whole})
		}
	}
}

// maxCut is how many digits an escape of URLs may take of what follows an incomplete one: four of %u20ac.
const maxCut = 4

// addCut adds the rest of a text whose first digits end an escape of URLs, or whose last characters begin an escape.
// Code can send a percent sign before a placeholder, and digits behind it, and some encoders do not escape what seems
// to be an escape.
func (all patternSet) addCut(text, placeholder string) {
	if strings.Trim(text, unescaped) == "" { // it is found as it is
		return
	}
	ends := []int{len(text)}
	if i := beginOfEscape(text); i >= 0 {
		ends = append(ends, i)
	}
	for begin := 0; ; begin++ {
		for i, end := range ends {
			if begin+i == 0 || begin > end { // addValue adds the whole text
				continue
			}
			p := pattern{placeholder: placeholder, cut: begin > 0, cutEnd: i > 0}
			var d decoded
			d.read([]byte(text[begin:end]), &percents)
			all.add(text[begin:end], p)
			all.add(string(d.text), p)
		}
		if _, ok := number([]byte(text), begin, 1, 16); !ok || begin == maxCut {
			return
		}
	}
}

// beginOfEscape returns the position of an incomplete escape of URLs, HTML or XML at the end of a text, or -1.
func beginOfEscape(text string) int {
	i := strings.LastIndexAny(text, "%&")
	if i < 0 || len(text)-i >= maxEscape || strings.Trim(text[i+1:], "#"+unescaped) != "" {
		return -1
	}
	return i
}

// unescaped are characters that encoders of URLs do not escape if they keep what seems to be an escape.
const unescaped = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// add adds a pattern of a text, unless it is too short for a value.
func (all patternSet) add(text string, p pattern) {
	if len(text) < tailSize || len(text) > maxPattern {
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

// search is the memory of a search.
type search struct {
	hashes  hashes
	begin   int // of the text that is decoded, in the text as it is
	decoded [maxLayers]decoded
	found   []span // in the text as it is
	escaped []span
}

var searchPool = sync.Pool{New: func() any { return new(search) }}

// find calls found with each part of b that reveals a value and ends at one of the positions from..to, in the order of
// their ends. Parts may overlap. b begins with a whole escape.
func (f *finder) find(b []byte, from, to int, found func(span)) {
	s := searchPool.Get().(*search)
	defer searchPool.Put(s)
	for ; from <= to; from += cleanSize { // hashes take eight times the memory of a text
		last := min(to, from+cleanSize-1)
		s.found = f.findIn(s.found[:0], s, b, from, last)
		f.findEscaped(s, b, from, last)
		slices.SortFunc(s.found, func(a, b span) int { return cmp.Or(a.end-b.end, a.start-b.start) })
		for _, one := range s.found {
			found(one)
		}
	}
}

// findIn finds what find finds in a text as it is. It joins parts that overlap: there may be many at each position.
func (f *finder) findIn(found []span, s *search, b []byte, from, to int) []span {
	from = max(from, tailSize)
	if from > to {
		return found
	}
	begin := max(0, from-f.longest)
	s.hashes.read(b[begin:to])
	for end := from; end <= to; end++ {
		list := f.patterns[f.hashTail(tailOf(b[:end]))]
		for i := range list {
			if p := &list[i]; s.hashes.has(p, end-begin) {
				found = join(found, p.span(b, end-p.size, end))
			}
		}
	}
	return found
}

// kinds are the kinds of escapes. One may be inside another, or inside itself: a URL in JSON, JSON in JSON.
var kinds = []*escape{&percents, &backslashes, &references}

const maxLayers = 2

// part is a part of a text, with the positions at which the patterns to find end.
type part struct {
	text        []byte
	first, last int
}

// findEscaped finds what find finds in a text as decoders of escapes read it.
func (f *finder) findEscaped(s *search, b []byte, from, to int) {
	s.begin = max(0, from-maxHeld)
	s.begin -= trailingBackslash(b[:s.begin])
	f.findInside(s, 0, part{b[s.begin:min(len(b), to+maxEscape)], from - s.begin, to - s.begin})
}

// manyBackslashes at the beginning of a part may go back further than it, so that the first one may be the second of a
// pair. Fewer can matter only if a pattern is almost as long as the part.
var manyBackslashes = bytes.Repeat([]byte{'\\'}, 64)

// findInside finds what further decoders find in a text of which some layers of escapes have been decoded.
func (f *finder) findInside(s *search, layers int, of part) {
	for _, e := range kinds {
		f.findDecoded(s, layers, e, of)
		if e != &backslashes || layers == 0 {
			continue
		}
		if i := bytes.Index(of.text[:min(len(of.text), maxEscape+len(manyBackslashes))], manyBackslashes); i >= 0 {
			of.text[i] = 0
			f.findDecoded(s, layers, e, of)
			of.text[i] = e.begin
		}
	}
}

// findDecoded finds what find finds in a text as a decoder of one more layer of escapes reads it, and not as a decoder
// of fewer layers. Then it does so for further layers.
func (f *finder) findDecoded(s *search, layer int, e *escape, of part) {
	d := &s.decoded[layer]
	if d.read(of.text, e); len(d.some) == 0 {
		return
	}
	inside := part{d.text, d.upTo(of.first-1) + 1, d.upTo(of.last)}
	s.escaped = f.findAround(s.escaped[:0], s, d, inside)
	for _, one := range s.escaped {
		for n := layer; n >= 0; n-- {
			one.start, one.end = s.decoded[n].beginOf(one.start), s.decoded[n].endOf(one.end)
		}
		one.start, one.end = s.begin+one.start, s.begin+one.end
		s.found = append(s.found, one)
	}
	if layer+1 < maxLayers {
		f.findInside(s, layer+1, inside)
	}
}

// findAround finds what findIn finds in a decoded text, where a pattern can have one of the replaced escapes.
func (f *finder) findAround(found []span, s *search, d *decoded, of part) []span {
	some, from, to := d.some, of.first, of.last
	for len(some) > 0 && from <= to {
		from = max(from, some[0].textBegin) // the character after a pattern may be escaped
		end := from - 1
		for len(some) > 0 && some[0].textBegin <= end+1 {
			end, some = max(end, some[0].textEnd+f.longest), some[1:]
		}
		end = min(end, to)
		found = f.findIn(found, s, of.text, from, end)
		from = end + 1
	}
	return found
}

// span is a part of a text that reveals a value.
type span struct {
	start, end  int
	placeholder string
}

// join adds a span to others, which do not overlap and end before it, and joins it with those that it overlaps.
func join(list []span, one span) []span {
	for len(list) > 0 && list[len(list)-1].end > one.start {
		before := list[len(list)-1]
		if before.start < one.start {
			one.start, one.placeholder = before.start, before.placeholder
		}
		one.end, list = max(one.end, before.end), list[:len(list)-1]
	}
	return append(list, one)
}

// span is the part to hide, where the pattern is found.
func (p *pattern) span(b []byte, start, end int) span {
	if start > 0 && (p.cut || p.before && isBase64(b[start-1])) {
		start--
	}
	if end < len(b) && (p.cutEnd || p.after && isBase64(b[end])) {
		end++
	}
	return span{start, end, p.placeholder}
}

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("+/-_", c) >= 0
}
