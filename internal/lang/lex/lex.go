// Package lex splits Python and JavaScript source text into tokens. The text may be hostile: every function is
// iterative and linear in its length.
package lex

import "strings"

// Kind is a kind of token.
type Kind uint8

// The kinds of tokens.
const (
	None    Kind = iota // there is no token: the text has ended
	Name                // an identifier, keyword or number
	Text                // a string; its text is the content
	Mark                // one character of punctuation; in JavaScript also "=>" and "${"
	Line                // the end of a line of Python outside of brackets
	Command             // a line of a notebook that begins with "%" or "!"; its text is the whole line
)

// Token is one token.
type Token struct {
	Kind  Kind
	First bool   // the first token of its line; in Python, Command and Line are never first
	At    int32  // offset of its first byte
	Text  string // a part of the source text, not a copy
}

// Is reports whether the token is the punctuation.
func (t Token) Is(punctuation string) bool { return t.Kind == Mark && t.Text == punctuation }

// Word reports whether the token is the identifier or keyword.
func (t Token) Word(text string) bool { return t.Kind == Name && t.Text == text }

// Tokens is a list of tokens. It grows without copies: hostile text may have one token for each byte.
type Tokens struct {
	code   string
	blocks [][]Token
	length int
	last   Token
	each   func(Token) // takes the tokens, and none is kept; nil keeps all
	// Unclear reports that an f-string of Python may not end where its token ends, and what follows may be misread.
	Unclear bool
}

const perBlock = 256

// Len returns the number of tokens.
func (l *Tokens) Len() int { return l.length }

// Get returns the token at an index, or one of kind None.
func (l *Tokens) Get(i int) Token {
	if i < 0 || i >= l.length {
		return Token{}
	}
	return l.blocks[i/perBlock][i%perBlock]
}

func (l *Tokens) add(t Token) {
	if l.last = t; l.each != nil {
		l.each(t)
		return
	}
	if l.length%perBlock == 0 {
		room := perBlock
		if l.length == 0 {
			room = min(perBlock, len(l.code)/4+4) // most code is short
		}
		l.blocks = append(l.blocks, make([]Token, 0, room))
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, t)
	l.length++
}

// reader reads the tokens of a text.
type reader struct {
	*Tokens
	pos   int
	first bool // no token of this line has been read yet
}

func read(code string) *reader { return &reader{&Tokens{code: code}, 0, true} }

func (r *reader) more() bool { return r.pos < len(r.code) }

// token adds a token that begins at an offset.
func (r *reader) token(kind Kind, at int, text string) {
	r.add(Token{kind, r.first, int32(at), text})
	r.first = false
}

// mark adds the next n bytes as punctuation.
func (r *reader) mark(n int) {
	r.pos += n
	r.token(Mark, r.pos-n, r.code[r.pos-n:r.pos])
}

// peek returns the byte n places on, or 0.
func (r *reader) peek(n int) byte {
	if r.pos+n < len(r.code) {
		return r.code[r.pos+n]
	}
	return 0
}

// skip skips n bytes, or the rest.
func (r *reader) skip(n int) { r.pos = min(r.pos+n, len(r.code)) }

// skipTo skips everything before the next occurrence of end, or the rest.
func (r *reader) skipTo(end string) {
	if n := strings.Index(r.code[r.pos:], end); n >= 0 {
		r.pos += n
	} else {
		r.pos = len(r.code)
	}
}

func (r *reader) has(prefix string) bool { return strings.HasPrefix(r.code[r.pos:], prefix) }

// escape skips a backslash and the character after it. A line end of Windows is one character.
func (r *reader) escape() {
	if r.has("\\\r\n") {
		r.skip(1)
	}
	r.skip(2)
}

// text reads the rest of a string up to its end and returns the content. Backslashes escape, also in raw strings of
// Python. A string that is not long ends with its line.
func (r *reader) text(end string, long bool) string {
	for from := r.pos; ; {
		switch {
		case !r.more():
			return r.code[from:]
		case r.has(end):
			r.skip(len(end))
			return r.code[from : r.pos-len(end)]
		case r.peek(0) == '\\':
			r.escape()
		case r.peek(0) == '\n' && !long:
			return r.code[from:r.pos]
		default:
			r.pos++
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// word reads letters, digits and one further character that words may contain.
func (r *reader) word(also byte) string {
	from := r.pos
	for r.more() && (isWord(r.peek(0)) || also != 0 && r.peek(0) == also) {
		r.pos++
	}
	return r.code[from:r.pos]
}
