package lex

import "strings"

// Python returns the tokens of Python.
func Python(code string) *Tokens {
	r := read(code)
	r.python()
	return r.Tokens
}

// EachPython passes the tokens of Python to take. It keeps none: a token takes 24 times the memory of its byte.
func EachPython(code string, take func(Token)) {
	r := read(code)
	r.each = take
	r.python()
}

func (r *reader) python() {
	for depth := 0; r.more(); {
		c, at := r.peek(0), r.pos
		switch {
		case c == '#':
			r.skipTo("\n")
		case c == '\n':
			r.pos++
			if depth == 0 {
				r.token(Line, at, "\n")
			}
			r.first = true
		case c == '\\' && (r.peek(1) == '\n' || r.has("\\\r\n")):
			r.escape()
		case (c == '%' || c == '!') && r.first && depth == 0:
			r.skipTo("\n")
			r.token(Command, at, strings.TrimSuffix(r.code[at:r.pos], "\r"))
		case c == '"' || c == '\'':
			r.pythonText(at)
		case isWord(c):
			word := r.word(0)
			if q := r.peek(0); (q == '"' || q == '\'') && len(word) <= 2 && strings.Trim(word, "rbfutRBFUT") == "" {
				r.pythonText(at)
				continue
			}
			r.token(Name, at, word)
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			r.pos++
		default:
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth = max(0, depth-1)
			}
			r.mark(1)
		}
	}
}

// pythonText reads a string whose quotes are next. Its token begins at an offset, with a prefix or the quotes.
func (r *reader) pythonText(at int) {
	quotes := r.code[r.pos : r.pos+1]
	if long := strings.Repeat(quotes, 3); r.has(long) {
		quotes = long
	}
	formatted := strings.ContainsAny(r.code[at:r.pos], "fFtT")
	r.skip(len(quotes))
	text := r.text(quotes, len(quotes) == 3)
	r.token(Text, at, text)
	r.Unclear = r.Unclear || formatted && !fieldsEnd(text)
}

// fieldsEnd reports whether all replacement fields of an f-string end within its text. Since Python 3.12 they may
// contain the quotes of the string, which then continues after the text. It returns false for text that it cannot
// follow: backslashes and comments in fields, and braces or triple quotes in strings there.
func fieldsEnd(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case depth == 0 && (strings.HasPrefix(text[i:], "{{") || strings.HasPrefix(text[i:], "}}")):
			i++
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth > 0 && (c == '\\' || c == '#'):
			return false
		case depth > 0 && (c == '"' || c == '\''):
			literal, rest, ended := strings.Cut(text[i+1:], string(c))
			if !ended || strings.ContainsAny(literal, "{}\\") || literal == "" && strings.HasPrefix(rest, string(c)) {
				return false
			}
			i += len(literal) + 1
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0
}

// Import is one name in an import statement of Python.
type Import struct {
	Start     Token  // "from" or "import"
	Module    string // "a.b"; a relative one begins with "."
	ModuleAt  int32
	Name      string // of "from Module import Name", perhaps "*"; "" for "import Module"
	NameAt    int32
	Alias     string // after "as", or ""
	Malformed bool   // the statement does not continue or end properly after this name, which may be ""
}

// Imports yields the names of all import statements of Python.
func (l *Tokens) Imports(yield func(Import) bool) {
	for i, ok := 0, true; ok && i < l.length; i++ {
		if t := l.Get(i); t.Word("import") || t.Word("from") {
			i, ok = l.imports(i, yield)
		}
	}
}

// imports reads the statement at i. It returns the index of its last token, and what yield returned last.
func (l *Tokens) imports(i int, yield func(Import) bool) (last int, ok bool) {
	one := Import{Start: l.Get(i), ModuleAt: l.Get(i + 1).At}
	from, brackets := one.Start.Word("from"), false
	if i++; from {
		if one.Module, i = l.dotted(i); !l.Get(i).Word("import") {
			return i - 1, true // yield from, raise from
		}
		if i++; l.Get(i).Is("(") {
			i, brackets = i+1, true
		}
	}
	for more := true; more; {
		t, valid := l.Get(i), false
		if from {
			if valid = isIdentifier(t) || t.Is("*"); valid {
				one.Name, one.NameAt = t.Text, t.At
				i++
			} else {
				one.Name = ""
			}
		} else {
			one.ModuleAt = t.At
			one.Module, i = l.dotted(i)
			valid = one.Module != "" && !strings.HasSuffix(one.Module, ".")
		}
		if one.Alias = ""; l.Get(i).Word("as") && l.Get(i+1).Kind == Name {
			one.Alias = l.Get(i + 1).Text
			i += 2
		}
		if more = valid && l.Get(i).Is(","); more {
			i++
		}
		if brackets && l.Get(i).Is(")") {
			i, brackets, more = i+1, false, false
		}
		end := l.Get(i)
		one.Malformed = !valid || !more && (brackets || end.Kind != Line && end.Kind != None && !end.Is(";"))
		if !yield(one) {
			return i, false
		}
	}
	return i - 1, true
}

func isIdentifier(t Token) bool { return t.Kind == Name && t.Text != "import" && t.Text != "from" }

// dotted reads a name such as "a.b" or "..c" at i. It returns the index after it.
func (l *Tokens) dotted(i int) (name string, after int) {
	first := i
	for l.Get(i).Is(".") {
		i++
	}
	for isIdentifier(l.Get(i)) {
		if i++; !l.Get(i).Is(".") {
			break
		}
		i++
	}
	if i == first {
		return "", i
	}
	last := l.Get(i - 1)
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' || r == '\f' || r == '\r' || r == '\n' || r == '\\' {
			return -1
		}
		return r
	}, l.code[l.Get(first).At:int(last.At)+len(last.Text)]), i
}
