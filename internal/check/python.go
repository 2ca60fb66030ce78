package check

import (
	"slices"
	"strings"
)

// python checks Python.
func (f *finder) python(code []byte) {
	n := &names{finder: f, tokens: lexPython(code), aliases: map[string]string{}, calls: byName(pythonCalls)}
	start := true
	for i, t := range n.tokens {
		if start && (t.word("import") || t.word("from")) {
			n.pythonImport(i)
		}
		if t.word("while") && i+2 < len(n.tokens) && (n.tokens[i+1].word("True") || n.tokens[i+1].word("1")) {
			n.repeats(i, "os.fork", "os.system", "subprocess.Popen")
		}
		start = t.kind == line || t.is(";") || t.is(":")
	}
	n.run()
	n.servedShell()
}

// pythonImport reads an import statement at i.
func (n *names) pythonImport(i int) {
	from := n.tokens[i].word("from")
	i++
	if i >= len(n.tokens) || n.tokens[i].kind != name {
		return
	}
	if from {
		at := n.tokens[i].at
		module, after := n.module(i)
		if after >= len(n.tokens) || !n.tokens[after].word("import") {
			return
		}
		n.imported(at, module)
		n.importNames(module, after+1)
		return
	}
	for {
		at := n.tokens[i].at
		module, after := n.module(i)
		n.imported(at, module)
		if after+1 < len(n.tokens) && n.tokens[after].word("as") && n.tokens[after+1].kind == name {
			n.aliases[n.tokens[after+1].text] = module
			after += 2
		}
		if i = after + 1; after >= len(n.tokens) || !n.tokens[after].is(",") || i >= len(n.tokens) || n.tokens[i].kind != name {
			return
		}
	}
}

// importNames reads the names of "from MODULE import A as B, (C)".
func (n *names) importNames(module string, i int) {
	for ; i < len(n.tokens) && n.tokens[i].kind != line; i++ {
		t := n.tokens[i]
		if t.kind != name {
			continue
		}
		full := module + "." + t.text
		local := t.text
		if i+2 < len(n.tokens) && n.tokens[i+1].word("as") && n.tokens[i+2].kind == name {
			local = n.tokens[i+2].text
			i += 2
		}
		n.aliases[local] = full
		if n.calls[full] == "shell" {
			n.add(t.at, "shell", "dangerous import "+quoted(full))
		}
		n.imported(t.at, full)
	}
}

func (n *names) imported(at place, module string) {
	if slices.Contains(pythonNetwork, module) {
		n.add(at, "network", "import "+quoted(module))
	}
}

// module reads a dotted name as it is.
func (n *names) module(i int) (module string, after int) {
	var parts []string
	for ; i < len(n.tokens) && n.tokens[i].kind == name; i++ {
		parts = append(parts, n.tokens[i].text)
		if i+1 >= len(n.tokens) || !n.tokens[i+1].is(".") {
			i++
			break
		}
		i++
	}
	return strings.Join(parts, "."), i
}

// servedShell looks for a shell whose streams are a connection.
func (n *names) servedShell() {
	shell, connected := false, -1
	for i, t := range n.tokens {
		switch {
		case t.kind == text && (t.text == "/bin/sh" || t.text == "/bin/bash" || t.text == "sh" || t.text == "bash"):
			shell = true
		case t.word("dup2") && i+4 < len(n.tokens) && n.tokens[i+1].is("(") && n.tokens[i+4].word("fileno"):
			connected = i
		}
	}
	if shell && connected >= 0 {
		n.add(n.tokens[connected].at, "reverse-shell", "a shell on a connection")
	}
}

// lexPython reads the tokens of Python.
func lexPython(code []byte) (tokens []token) {
	s := source{code: code, line: 1}
	depth := 0
	for s.more() {
		c, here := s.peek(0), s.at()
		switch {
		case c == '#':
			s.skipLine()
		case c == '\n':
			s.next()
			if depth == 0 {
				tokens = append(tokens, token{kind: line, at: here})
			}
		case c == '\\' && s.peek(1) == '\n':
			s.skip(2)
		case c == '"' || c == '\'':
			tokens = append(tokens, token{text, pythonString(&s, c, false), here})
		case isWord(c):
			word := s.identifier(0)
			if q := s.peek(0); (q == '"' || q == '\'') && len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbfut") == "" {
				tokens = append(tokens, token{text, pythonString(&s, q, strings.ContainsAny(word, "rR")), here})
				continue
			}
			tokens = append(tokens, token{name, word, here})
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			s.next()
		default:
			s.next()
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth = max(0, depth-1)
			}
			tokens = append(tokens, token{mark, string(rune(c)), here})
		}
	}
	return tokens
}

func pythonString(s *source, quote byte, raw bool) string {
	if long := strings.Repeat(string(rune(quote)), 3); s.has(long) {
		s.skip(3)
		return s.until(long, raw, true)
	}
	s.next()
	return s.until(string(rune(quote)), raw, false)
}
