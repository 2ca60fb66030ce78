package lex

import (
	"slices"
	"strings"
)

// JavaScript returns the tokens of JavaScript or TypeScript. A template is a string for each piece of its text; "${"
// and "}" enclose the tokens of its expressions.
func JavaScript(code string) *Tokens {
	r := read(code)
	r.javaScript()
	return r.Tokens
}

// EachJavaScript passes the tokens of JavaScript to take, until it returns false. It keeps none, as EachPython.
func EachJavaScript(code string, take func(Token) bool) {
	r := read(code)
	r.each = func(t Token) {
		if !take(t) {
			r.pos = len(r.code)
		}
	}
	r.javaScript()
}

func (r *reader) javaScript() {
	var templates []int // for each template with an open expression, the open braces in the expression
	for r.more() {
		c, at := r.peek(0), r.pos
		open := len(templates) - 1
		switch {
		case r.has("//") || at == 0 && r.has("#!"):
			r.skipTo("\n")
		case r.has("/*"):
			r.comment()
		case c == '"' || c == '\'':
			r.pos++
			r.token(Text, at, r.text(r.code[at:r.pos], false))
		case c == '`':
			r.pos++
			r.template(at, &templates)
		case c == '}' && open >= 0 && templates[open] == 0:
			r.mark(1)
			templates = templates[:open]
			r.template(r.pos, &templates)
		case c == '/' && patternMayFollow(r.last):
			r.skipPattern()
		case isWord(c) || c == '$':
			r.token(Name, at, r.word('$'))
		case c == '\n' || c == '\r':
			r.pos++
			r.first = true
		case c == ' ' || c == '\t':
			r.pos++
		case r.has("=>"):
			r.mark(2)
		default:
			if open >= 0 && c == '{' {
				templates[open]++
			} else if open >= 0 && c == '}' {
				templates[open]--
			}
			r.mark(1)
		}
	}
}

// comment skips a comment in "/*" and "*/".
func (r *reader) comment() {
	from := r.pos
	r.skip(2)
	r.skipTo("*/")
	r.first = r.first || strings.Contains(r.code[from:r.pos], "\n")
	r.skip(2)
}

// template reads text of a template up to its end or its next expression.
func (r *reader) template(at int, templates *[]int) {
	for from := r.pos; ; {
		switch {
		case !r.more():
			r.token(Text, at, r.code[from:])
			return
		case r.peek(0) == '\\':
			r.escape()
		case r.peek(0) == '`':
			r.token(Text, at, r.code[from:r.pos])
			r.pos++
			return
		case r.has("${"):
			r.token(Text, at, r.code[from:r.pos])
			r.mark(2)
			*templates = append(*templates, 0)
			return
		default:
			r.pos++
		}
	}
}

// skipPattern skips a regular expression, up to the end of the line. A slash in a class does not end it.
func (r *reader) skipPattern() {
	class := false
	for r.pos++; r.more() && r.peek(0) != '\n'; r.pos++ {
		switch c := r.peek(0); {
		case c == '\\' && r.peek(1) != '\n':
			r.pos++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			r.pos++
			return
		}
	}
	r.pos = min(r.pos, len(r.code))
}

// operators are the words before an expression.
var operators = strings.Fields("return typeof case in of delete void throw new else do instanceof yield await")

// patternMayFollow reports whether a slash after the token begins a regular expression rather than divides.
func patternMayFollow(last Token) bool {
	switch last.Kind {
	case Text:
		return false
	case Name:
		return slices.Contains(operators, last.Text)
	default:
		return !last.Is(")") && !last.Is("]") && !last.Is("}")
	}
}
