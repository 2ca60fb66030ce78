package javascript

import "bytes"

// token is a word (identifier, keyword, number) or punctuation. Strings, pieces of templates and regular expressions are tokens without
// text.
type token struct {
	text    string
	word    bool
	newline bool // it is the first on its line
}

// is reports whether the token is that punctuation.
func (t token) is(text string) bool { return !t.word && t.text == text }

// continues reports whether a token at the start of a line continues the expression of the previous line.
func (t token) continues() bool {
	return !t.word && t.text != "" && !t.is("{") && !t.is("}") && !t.is(";")
}

// lexer reads the tokens that IsModule needs. It skips comments and the contents of strings, templates and regular expressions. An
// expression in a template is between the tokens "${" and "}".
type lexer struct {
	src       []byte
	pos       int
	token     token
	templates []int // for each template with an open expression, the open braces in it
	resume    bool  // the text of a template continues here
}

// next reads one token into l.token and reports whether there was one.
func (l *lexer) next() bool {
	before := l.token
	l.token = token{}
	if l.resume {
		l.template()
		return true
	}
	l.token.newline = l.skipSpace()
	if l.pos >= len(l.src) {
		return false
	}
	switch c := l.src[l.pos]; {
	case isWordByte(c):
		from := l.pos
		for l.pos < len(l.src) && isWordByte(l.src[l.pos]) {
			l.pos++
		}
		l.token.word = true
		l.token.text = string(l.src[from:l.pos])
	case c == '"' || c == '\'':
		l.skipString(c)
	case c == '`':
		l.pos++
		l.template()
	case c == '/' && patternMayFollow(before):
		l.skipPattern()
	default:
		l.punctuation(c)
	}
	return true
}

func (l *lexer) punctuation(c byte) {
	l.pos++
	l.token.text = string(rune(c))
	open := len(l.templates) - 1
	switch {
	case c == '=' && l.pos < len(l.src) && l.src[l.pos] == '>':
		l.pos++
		l.token.text = "=>"
	case c == '{' && open >= 0:
		l.templates[open]++
	case c == '}' && open >= 0 && l.templates[open] > 0:
		l.templates[open]--
	case c == '}' && open >= 0:
		l.templates = l.templates[:open]
		l.resume = true
	}
}

// template skips the text of a template up to its end or its next expression.
func (l *lexer) template() {
	l.resume = false
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\\':
			l.pos += 2
		case c == '`':
			l.pos++
			return
		case c == '$' && l.pos+1 < len(l.src) && l.src[l.pos+1] == '{':
			l.pos += 2
			l.templates = append(l.templates, 0)
			l.token.text = "${"
			return
		default:
			l.pos++
		}
	}
}

// skipSpace skips blanks and comments and reports whether the next token is the first on its line.
func (l *lexer) skipSpace() (newline bool) {
	newline = l.pos == 0
	if newline && bytes.HasPrefix(l.src, []byte("#!")) {
		l.skipLine()
	}
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case rest[0] == '\n' || rest[0] == '\r':
			newline = true
			l.pos++
		case rest[0] == ' ' || rest[0] == '\t':
			l.pos++
		case bytes.HasPrefix(rest, []byte("//")):
			l.skipLine()
		case bytes.HasPrefix(rest, []byte("/*")):
			comment := rest
			if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
				comment = rest[:end+4]
			}
			newline = newline || bytes.IndexByte(comment, '\n') >= 0
			l.pos += len(comment)
		default:
			return newline
		}
	}
	return newline
}

func (l *lexer) skipLine() {
	for l.pos < len(l.src) && l.src[l.pos] != '\n' {
		l.pos++
	}
}

// skipString skips a string. The end of the line ends it too: Node will report that.
func (l *lexer) skipString(quote byte) {
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch l.src[l.pos] {
		case '\\':
			l.pos++
		case quote:
			l.pos++
			return
		case '\n':
			return
		}
	}
}

// skipPattern skips a regular expression. In a class, a slash is literal.
func (l *lexer) skipPattern() {
	class := false
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '\\':
			l.pos++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			l.pos++
			return
		case c == '\n':
			return
		}
	}
}

// patternMayFollow reports whether a slash after this token begins a regular expression, not a division.
func patternMayFollow(t token) bool {
	if !t.word {
		return t.text != "" && !t.is(")") && !t.is("]")
	}
	switch t.text {
	case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else", "instanceof", "yield", "await":
		return true
	}
	return false
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
