package check

import (
	"slices"
	"strings"
	"sync"
)

var pythonWords = sync.OnceValue(func() *vocabulary {
	return newVocabulary(pythonCalls, append([]string{"os.fork"}, pythonNetwork...)...)
})

// python checks Python.
func (f *finder) python() {
	n := &names{finder: f, vocabulary: pythonWords(), tokens: lexPython(f.code), aliases: map[string]string{}}
	start := true
	for i := range n.tokens.len {
		t := n.tok(i)
		if start && (t.word("import") || t.word("from")) {
			n.pythonImport(i)
		}
		if t.word("while") && (n.tok(i+1).word("True") || n.tok(i+1).word("1")) {
			n.repeats(i, "os.fork", "os.system", "subprocess.Popen")
		}
		start = t.kind == line || t.is(";") || t.is(":")
	}
	n.run()
	n.servedShell()
}

// pythonImport reads an import statement at i.
func (n *names) pythonImport(i int) {
	from := n.tok(i).word("from")
	for i++; n.tok(i).kind == name; i++ {
		first := n.tok(i)
		module, after := n.dotted(first.text, i, n.tokens.len)
		if from && !n.tok(after).word("import") {
			return
		}
		n.imported(first.at, module)
		if from {
			n.importNames(module, after+1)
			return
		}
		if n.tok(after).word("as") && n.tok(after+1).kind == name {
			n.bind(n.tok(after+1).text, module)
			after += 2
		}
		if i = after; !n.tok(i).is(",") {
			return
		}
	}
}

// importNames reads the names of "from MODULE import A as B, (C)". All else ends them: the next statement may be another import.
func (n *names) importNames(module string, i int) {
	for ; ; i++ {
		t := n.tok(i)
		if t.is("(") || t.is(",") || t.is(")") {
			continue
		}
		if t.kind != name {
			return
		}
		full, local := n.join(module, t.text), t.text
		if n.tok(i+1).word("as") && n.tok(i+2).kind == name {
			local = n.tok(i + 2).text
			i += 2
		}
		n.bind(local, full)
		if n.rules[full] == "shell" {
			n.add(t.at, "shell", "dangerous import "+quoted(full))
		}
		n.imported(t.at, full)
	}
}

func (n *names) imported(at int32, module string) {
	if slices.Contains(pythonNetwork, module) {
		n.add(at, "network", "import "+quoted(module))
	}
}

// servedShell looks for a shell whose streams are a connection.
func (n *names) servedShell() {
	shell, connected := false, -1
	for i := range n.tokens.len {
		t := n.tok(i)
		switch {
		case t.kind == text && (t.text == "/bin/sh" || t.text == "/bin/bash" || t.text == "sh" || t.text == "bash"):
			shell = true
		case t.word("dup2") && n.tok(i+1).is("(") && n.tok(i+4).word("fileno"):
			connected = i
		}
	}
	if shell && connected >= 0 {
		n.add(n.tok(connected).at, "reverse-shell", "a shell on a connection")
	}
}

// lexPython reads the tokens of Python.
func lexPython(code string) (tokens list) {
	s := source{code: code}
	depth := 0
	for s.more() {
		c, here := s.peek(0), s.at()
		switch {
		case c == '#':
			s.skipLine()
		case c == '\n':
			s.pos++
			if depth == 0 {
				tokens.add(token{kind: line, at: here})
			}
		case c == '\\' && s.peek(1) == '\n':
			s.skip(2)
		case c == '"' || c == '\'':
			tokens.add(token{text, here, pythonString(&s)})
		case isWord(c):
			word := s.identifier(0)
			if q := s.peek(0); (q == '"' || q == '\'') && len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbfut") == "" {
				tokens.add(token{text, here, pythonString(&s)})
				continue
			}
			tokens.add(token{name, here, word})
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			s.pos++
		default:
			s.pos++
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth = max(0, depth-1)
			}
			tokens.add(token{mark, here, code[here:s.pos]})
		}
	}
	return tokens
}

// pythonString reads a string, whose quote is next.
func pythonString(s *source) string {
	for _, long := range []string{`"""`, "'''"} {
		if s.has(long) {
			s.skip(len(long))
			return s.until(long, true)
		}
	}
	quote := s.code[s.pos : s.pos+1]
	s.pos++
	return s.until(quote, false)
}
