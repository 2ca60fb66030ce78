package check

import (
	"slices"
	"strings"
	"sync"
)

var scriptWords = sync.OnceValue(func() *vocabulary { return newVocabulary(scriptCalls, "cluster.fork") })

// script checks JavaScript and TypeScript.
func (f *finder) script() {
	n := &names{finder: f, vocabulary: scriptWords(), tokens: lexScript(f.code), aliases: map[string]string{}}
	for i := range n.tokens.len {
		t := n.tok(i)
		switch {
		case t.word("import") && !n.tok(i-1).is("."):
			n.scriptImport(i)
		case t.kind == text && n.tok(i-1).word("from"):
			n.scriptModule(t)
		case t.kind == text && n.tok(i-1).is("(") && n.tok(i-2).word("require"):
			n.scriptModule(t)
			n.bindRequired(i)
		case t.word("while") && n.tok(i+1).is("(") && (n.tok(i+2).word("true") || n.tok(i+2).word("1")) && n.tok(i+3).is(")"),
			t.word("for") && n.tok(i+1).is("(") && n.tok(i+2).is(";") && n.tok(i+3).is(";") && n.tok(i+4).is(")"):
			n.repeats(i, "child_process.fork", "child_process.spawn", "child_process.exec", "cluster.fork")
		}
	}
	n.run()
}

func moduleName(spec string) string { return strings.TrimPrefix(spec, "node:") }

func (n *names) scriptModule(t token) {
	if module := moduleName(t.text); slices.Contains(scriptNetwork, module) {
		n.add(t.at, "network", "import "+quoted(module))
	}
}

// moduleOf is the name of a module, if it is one that a rule is about.
func (n *names) moduleOf(spec string) string {
	if module := moduleName(spec); n.parts[module] {
		return module
	}
	return unknown
}

// scriptImport binds "import X from", "import * as X from" and "import {a as b} from". What else begins at i with "import" binds nothing.
func (n *names) scriptImport(i int) {
	from := i + 1
	for ; !n.tok(from).word("from") || n.tok(from+1).kind != text; from++ {
		switch t := n.tok(from); {
		case t.word("import"):
			return
		case t.kind == name, t.kind == text, t.is("{"), t.is("}"), t.is(","), t.is("*"):
		default:
			return
		}
	}
	module := n.moduleOf(n.tok(from + 1).text)
	for j := i + 1; j < from; j++ {
		t := n.tok(j)
		switch {
		case t.kind != name || t.text == "as" || t.text == "type":
		case n.tok(j + 1).word("as"): // what the name after "as" means
			if n.tok(j+2).kind == name {
				n.bind(n.tok(j+2).text, n.join(module, t.text))
			}
		case n.tok(j - 1).word("as"):
			if n.tok(j - 2).is("*") {
				n.bind(t.text, module)
			}
		case j > i+1 && (n.tok(j+1).is(",") || n.tok(j+1).is("}")):
			n.bind(t.text, n.join(module, t.text))
		default: // import X, {a} from
			n.bind(t.text, module)
		}
	}
}

// bindRequired binds "X = require(" and "{a, b: c} = require(", whose string is at i. A call of what it returns is judged in place.
func (n *names) bindRequired(i int) {
	module := n.moduleOf(n.tok(i).text)
	if method := n.tok(i + 3); n.tok(i+1).is(")") && n.tok(i+2).is(".") && method.kind == name && n.tok(i+4).is("(") {
		n.call(method, n.join(module, method.text), i+4)
	}
	j := i - 4 // what is before "= require ("
	if !n.tok(j + 1).is("=") {
		return
	}
	if t := n.tok(j); t.kind == name {
		n.bind(t.text, module)
		return
	}
	if !n.tok(j).is("}") {
		return
	}
	for j--; j >= n.bound && !n.tok(j).is("{"); j-- {
		t := n.tok(j)
		switch {
		case t.kind != name:
		case n.tok(j+1).is(":") && n.tok(j+2).kind == name:
			n.bind(n.tok(j+2).text, n.join(module, t.text))
		case !n.tok(j - 1).is(":"):
			n.bind(t.text, n.join(module, t.text))
		}
	}
	n.bound = i
}

// lexScript reads the tokens of JavaScript and TypeScript. Expressions in templates are read like the rest.
func lexScript(code string) (tokens list) {
	s := source{code: code}
	var templates []int // open braces in each expression of a template
	for s.more() {
		c, here := s.peek(0), s.at()
		switch {
		case s.has("//") || s.pos == 0 && s.has("#!"):
			s.skipLine()
		case s.has("/*"):
			s.skip(2)
			s.comment("*/")
		case c == '"' || c == '\'':
			s.pos++
			tokens.add(token{text, here, s.until(code[here:s.pos], false)})
		case c == '`':
			s.pos++
			tokens.add(token{text, here, template(&s, &templates)})
		case c == '}' && len(templates) > 0 && templates[len(templates)-1] == 0:
			s.pos++
			templates = templates[:len(templates)-1]
			tokens.add(token{text, here, template(&s, &templates)})
		case c == '/' && patternMayFollow(tokens.get(tokens.len-1)):
			skipPattern(&s)
		case isWord(c) || c == '$':
			tokens.add(token{name, here, s.identifier('$')})
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.pos++
		default:
			s.pos++
			if open := len(templates) - 1; open >= 0 && c == '{' {
				templates[open]++
			} else if open >= 0 && c == '}' {
				templates[open]--
			}
			tokens.add(token{mark, here, code[here:s.pos]})
		}
	}
	return tokens
}

// template reads text of a template up to its end or its next expression.
func template(s *source, templates *[]int) string {
	from := s.pos
	for s.more() {
		switch {
		case s.peek(0) == '\\':
			s.skip(2)
		case s.peek(0) == '`':
			s.pos++
			return s.code[from : s.pos-1]
		case s.has("${"):
			s.skip(2)
			*templates = append(*templates, 0)
			return s.code[from : s.pos-2]
		default:
			s.pos++
		}
	}
	return s.code[from:]
}

// skipPattern passes over a regular expression, on one line. In a class, a slash is literal.
func skipPattern(s *source) {
	class := false
	for s.pos++; s.more() && s.peek(0) != '\n'; s.pos++ {
		switch c := s.peek(0); {
		case c == '\\':
			s.pos++
			if !s.more() {
				return
			}
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			s.pos++
			return
		}
	}
}

// patternMayFollow reports whether a slash after this token begins a regular expression, and is no division.
func patternMayFollow(last token) bool {
	switch last.kind {
	case none:
		return true
	case text:
		return false
	case name:
		return slices.Contains([]string{"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do"}, last.text)
	default:
		return !last.is(")") && !last.is("]") && !last.is("}")
	}
}
