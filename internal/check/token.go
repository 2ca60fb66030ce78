package check

// kind is a kind of token.
type kind uint8

const (
	name kind = iota // an identifier, keyword or number
	text             // a string; its text is the content
	mark             // one character of punctuation
	line             // the end of a line, of Python outside of brackets
)

type token struct {
	kind kind
	text string
	at   place
}

func (t token) is(punctuation string) bool { return t.kind == mark && t.text == punctuation }
func (t token) word(text string) bool      { return t.kind == name && t.text == text }

// source reads bytes and counts lines.
type source struct {
	code  []byte
	pos   int
	line  int
	start int // of the line
}

func (s *source) at() place { return place{s.line, s.pos - s.start + 1} }

func (s *source) more() bool { return s.pos < len(s.code) }

// peek returns the byte so many places on, or 0.
func (s *source) peek(n int) byte {
	if s.pos+n < len(s.code) {
		return s.code[s.pos+n]
	}
	return 0
}

func (s *source) next() byte {
	c := s.code[s.pos]
	s.pos++
	if c == '\n' {
		s.line++
		s.start = s.pos
	}
	return c
}

// skip passes over n bytes, or to the end.
func (s *source) skip(n int) {
	for ; n > 0 && s.more(); n-- {
		s.next()
	}
}

func (s *source) skipLine() {
	for s.more() && s.peek(0) != '\n' {
		s.next()
	}
}

func (s *source) has(prefix string) bool {
	return len(s.code)-s.pos >= len(prefix) && string(s.code[s.pos:s.pos+len(prefix)]) == prefix
}

// until reads to the end of a string, over it, and returns the content. Backslashes escape unless raw; a line ends a short string.
func (s *source) until(end string, raw, long bool) string {
	from := s.pos
	for s.more() {
		switch {
		case s.has(end):
			content := s.code[from:s.pos]
			s.skip(len(end))
			return string(content)
		case s.peek(0) == '\\' && (!raw || s.peek(1) == end[0]):
			s.skip(2)
		case s.peek(0) == '\n' && !long:
			return string(s.code[from:s.pos])
		default:
			s.next()
		}
	}
	return string(s.code[from:])
}

// comment passes over a comment up to its end.
func (s *source) comment(end string) {
	for s.more() && !s.has(end) {
		s.next()
	}
	s.skip(len(end))
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// identifier reads letters, digits and whatever else belongs to words.
func (s *source) identifier(also byte) string {
	from := s.pos
	for s.more() && (isWord(s.peek(0)) || also != 0 && s.peek(0) == also) {
		s.next()
	}
	return string(s.code[from:s.pos])
}
