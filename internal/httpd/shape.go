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
	// bytes of a number or a name: encoding/json copies them several times into the text of an error
	maxLiteral = 64 << 10
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
	values  int
	depth   int
	literal int   // bytes of the longest name, or of what is between strings and punctuation
	size    int64 // of the decoded values beside their text
}

// shapeOf scans JSON without decoding it. Of a text that is not JSON it returns no less than what a decoder makes of
// the part before the error.
func shapeOf(text []byte) (s shape) {
	depth := 0
	end, name := 0, 0 // of the last token; bytes of the last string
	s.values = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '{', '[', ':', ',', '}', ']':
			s.literal = max(s.literal, i-end)
			end = i + 1
		}
		switch text[i] {
		case '"':
			begin := i
			i = endOfString(text, i+1)
			end, name = i+1, i-begin
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
			s.literal = max(s.literal, name)
		case ',':
			s.values++
			s.size += entrySize
		case '}', ']':
			depth--
		}
		s.depth = max(s.depth, depth)
	}
	s.literal = max(s.literal, len(text)-end)
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

// checkLiterals refuses JSON with a long name or number, before encoding/json decodes it.
func (s shape) checkLiterals() error {
	if s.literal <= maxLiteral {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.TooLarge,
		Msg: "the body has a name, a number or white space of more than " + sandbox.FormatBytes(maxLiteral)}
}
