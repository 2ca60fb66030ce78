package httpd

import (
	"bytes"
	"fmt"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of one JSON body. The largest sensible request, with 10,000 files, has some 70,000 values.
const (
	maxValues = 100_000
	maxDepth  = 100
)

// Upper bounds of the bytes that encoding/json needs for values of type any, beside their text, as measured on 64 bits:
// maps grow in groups of eight, slices by a quarter, and numbers, strings and lists are boxed.
const (
	objectSize = 320 // with one member
	memberSize = 80  // each further one
	listSize   = 64  // with one entry
	entrySize  = 64  // each further one
)

// shape is what a decoder makes of a JSON text.
type shape struct {
	values int
	depth  int
	size   int64 // of the decoded values beside their text
}

// shapeOf scans JSON without decoding it. Of a text that is not JSON it returns no less than what a decoder makes of
// the part before the error.
func shapeOf(text []byte) (s shape) {
	depth := 0
	s.values = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = endOfString(text, i+1)
		case '{':
			depth++
			s.values++
			s.size += objectSize
		case '[':
			depth++
			s.values++
			s.size += listSize
		case ':':
			s.size += memberSize
		case ',':
			s.values++
			s.size += entrySize
		case '}', ']':
			depth--
		}
		s.depth = max(s.depth, depth)
	}
	return s
}

// endOfString returns the index of the quote that ends a string whose text begins at i, or the end of text.
func endOfString(text []byte, i int) int {
	for begin := i; ; {
		length := bytes.IndexByte(text[i:], '"')
		if length < 0 {
			return len(text)
		}
		i += length
		back := i
		for back > begin && text[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			return i
		}
		i++
		begin = i // the backslashes before it are counted
	}
}

// check refuses JSON with too many values or levels, before anything decodes it.
func (s shape) check() error {
	const fix = "send large data as one string or as a file"
	switch {
	case s.values > maxValues:
		return &sandbox.Error{Kind: sandbox.TooLarge, Fix: fix,
			Msg: fmt.Sprintf("the body has more than %d JSON values", maxValues)}
	case s.depth > maxDepth:
		return &sandbox.Error{Kind: sandbox.TooLarge, Fix: fix,
			Msg: fmt.Sprintf("the body has more than %d levels of lists and objects", maxDepth)}
	}
	return nil
}
