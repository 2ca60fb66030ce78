package check

// kind is a kind of token.
type kind uint8

const (
	none kind = iota // there is no token: the text is over
	name             // an identifier, keyword or number
	text             // a string; its text is the content
	mark             // one character of punctuation
	line             // the end of a line, of Python outside of brackets
)

type token struct {
	kind kind
	at   int32  // offset of its first byte
	text string // a part of the program, not a copy
}

func (t token) is(punctuation string) bool { return t.kind == mark && t.text == punctuation }
func (t token) word(text string) bool      { return t.kind == name && t.text == text }

// list is a list of tokens. It grows without copies: there may be one for each byte of a text.
type list struct {
	blocks [][]token
	len    int
}

const perBlock = 256

func (l *list) add(t token) {
	if l.len%perBlock == 0 {
		l.blocks = append(l.blocks, make([]token, 0, perBlock))
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, t)
	l.len++
}

// get returns a token, or one of kind none.
func (l *list) get(i int) token {
	if i < 0 || i >= l.len {
		return token{}
	}
	return l.blocks[i/perBlock][i%perBlock]
}

// source reads bytes.
type source struct {
	code string
	pos  int
}

func (s *source) at() int32 { return int32(s.pos) } // a text has at most MaxBytes

func (s *source) more() bool { return s.pos < len(s.code) }

// peek returns the byte so many places on, or 0.
func (s *source) peek(n int) byte {
	if s.pos+n < len(s.code) {
		return s.code[s.pos+n]
	}
	return 0
}

// skip passes over n bytes, or to the end.
func (s *source) skip(n int) { s.pos = min(s.pos+n, len(s.code)) }

func (s *source) skipLine() {
	for s.more() && s.peek(0) != '\n' {
		s.pos++
	}
}

func (s *source) has(prefix string) bool {
	return len(s.code)-s.pos >= len(prefix) && s.code[s.pos:s.pos+len(prefix)] == prefix
}

// until reads to the end of a string, over it, and returns the content. A backslash and what follows are no end, also in raw
// strings of Python; a line ends a short string.
func (s *source) until(end string, long bool) string {
	from := s.pos
	for s.more() {
		switch {
		case s.has(end):
			content := s.code[from:s.pos]
			s.skip(len(end))
			return content
		case s.peek(0) == '\\':
			s.skip(2)
		case s.peek(0) == '\n' && !long:
			return s.code[from:s.pos]
		default:
			s.pos++
		}
	}
	return s.code[from:]
}

// comment passes over a comment up to its end.
func (s *source) comment(end string) {
	for s.more() && !s.has(end) {
		s.pos++
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
		s.pos++
	}
	return s.code[from:s.pos]
}
