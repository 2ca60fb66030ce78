package check

import (
	"slices"
	"strings"
)

// script checks JavaScript and TypeScript.
func (f *finder) script(code []byte) {
	n := &names{finder: f, tokens: lexScript(code), aliases: map[string]string{}, calls: byName(scriptCalls)}
	for i, t := range n.tokens {
		switch {
		case t.kind == text && i > 0 && n.tokens[i-1].word("from"):
			n.scriptModule(t)
			n.bindBefore(i-1, t.text)
		case t.kind == text && i > 1 && n.tokens[i-1].is("(") && n.tokens[i-2].word("require"):
			n.scriptModule(t)
			n.bindRequired(i)
		case t.word("while") && i+3 < len(n.tokens) && n.tokens[i+1].is("(") && (n.tokens[i+2].word("true") || n.tokens[i+2].word("1")) && n.tokens[i+3].is(")"),
			t.word("for") && i+4 < len(n.tokens) && n.tokens[i+1].is("(") && n.tokens[i+2].is(";") && n.tokens[i+3].is(";") && n.tokens[i+4].is(")"):
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

// maxBindings limits the names of one import.
const maxBindings = 100

// bindBefore binds "import X from", "import * as X from" and "import {a as b} from", read backwards from "from" at i.
func (n *names) bindBefore(i int, spec string) {
	module := moduleName(spec)
	for j := i - 1; j >= 0 && j > i-maxBindings; j-- {
		t := n.tokens[j]
		switch {
		case t.word("import"):
			return
		case t.kind != name || t.text == "as" || t.text == "type":
		case n.tokens[j+1].word("as"): // what the name after "as" means
			if n.tokens[j+2].kind == name {
				n.aliases[n.tokens[j+2].text] = module + "." + t.text
			}
		case j > 0 && n.tokens[j-1].word("as"):
			if j > 1 && n.tokens[j-2].is("*") {
				n.aliases[t.text] = module
			}
		case n.tokens[j+1].is(",") || n.tokens[j+1].is("}"):
			n.aliases[t.text] = module + "." + t.text
			if j > 0 && n.tokens[j-1].word("import") { // import X, {a} from
				n.aliases[t.text] = module
			}
		default:
			n.aliases[t.text] = module
		}
	}
}

// bindRequired binds "X = require(" and "{a, b: c} = require(", whose string is at i. A call of what it returns is judged in place.
func (n *names) bindRequired(i int) {
	module := moduleName(n.tokens[i].text)
	if i+4 < len(n.tokens) && n.tokens[i+1].is(")") && n.tokens[i+2].is(".") && n.tokens[i+3].kind == name && n.tokens[i+4].is("(") {
		n.call(n.tokens[i+3], module+"."+n.tokens[i+3].text, i+4)
	}
	j := i - 3
	if j < 1 || !n.tokens[j].is("=") {
		return
	}
	j--
	if n.tokens[j].kind == name {
		n.aliases[n.tokens[j].text] = module
		return
	}
	if !n.tokens[j].is("}") {
		return
	}
	for j--; j > 0 && j > i-maxBindings && !n.tokens[j].is("{"); j-- {
		t := n.tokens[j]
		switch {
		case t.kind != name:
		case n.tokens[j+1].is(":") && n.tokens[j+2].kind == name:
			n.aliases[n.tokens[j+2].text] = module + "." + t.text
		case !n.tokens[j-1].is(":"):
			n.aliases[t.text] = module + "." + t.text
		}
	}
}

// lexScript reads the tokens of JavaScript and TypeScript. Expressions in templates are read like the rest.
func lexScript(code []byte) (tokens []token) {
	s := source{code: code, line: 1}
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
			s.next()
			tokens = append(tokens, token{text, s.until(string(rune(c)), false, false), here})
		case c == '`':
			s.next()
			tokens = append(tokens, token{text, template(&s, &templates), here})
		case c == '}' && len(templates) > 0 && templates[len(templates)-1] == 0:
			s.next()
			templates = templates[:len(templates)-1]
			tokens = append(tokens, token{text, template(&s, &templates), here})
		case c == '/' && patternMayFollow(tokens):
			skipPattern(&s)
		case isWord(c) || c == '$':
			tokens = append(tokens, token{name, s.identifier('$'), here})
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.next()
		default:
			s.next()
			if open := len(templates) - 1; open >= 0 && c == '{' {
				templates[open]++
			} else if open >= 0 && c == '}' {
				templates[open]--
			}
			tokens = append(tokens, token{mark, string(rune(c)), here})
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
			s.next()
			return string(s.code[from : s.pos-1])
		case s.has("${"):
			s.skip(2)
			*templates = append(*templates, 0)
			return string(s.code[from : s.pos-2])
		default:
			s.next()
		}
	}
	return string(s.code[from:])
}

// skipPattern passes over a regular expression, on one line. In a class, a slash is literal.
func skipPattern(s *source) {
	class := false
	for s.next(); s.more() && s.peek(0) != '\n'; s.next() {
		switch c := s.peek(0); {
		case c == '\\':
			s.next()
			if !s.more() {
				return
			}
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			s.next()
			return
		}
	}
}

// patternMayFollow reports whether a slash begins a regular expression, and is no division.
func patternMayFollow(tokens []token) bool {
	if len(tokens) == 0 {
		return true
	}
	switch last := tokens[len(tokens)-1]; last.kind {
	case text:
		return false
	case name:
		return slices.Contains([]string{"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do"}, last.text)
	default:
		return !last.is(")") && !last.is("]") && !last.is("}")
	}
}
