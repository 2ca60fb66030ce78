package javascript

import "bytes"

// IsModule reports whether code must run as a module: it imports or exports at its top level, or awaits there and uses nothing of
// CommonJS. It reads tokens, not grammar; if it errs, Node's message about modules explains the rest.
func IsModule(code []byte) bool {
	if !bytes.Contains(code, []byte("import")) && !bytes.Contains(code, []byte("export")) && !bytes.Contains(code, []byte("await")) {
		return false
	}
	s := scanner{scopes: make([]scope, 1, 16)}
	l := lexer{src: code}
	for l.next() {
		if s.take(l.token) {
			return true
		}
		if len(s.scopes) > maxScopes {
			return false
		}
	}
	return s.awaits && !s.commonJS
}

// maxScopes limits the depth of brackets; deeper code is taken for a script.
const maxScopes = 1024

// scope is an open bracket, or the outermost level.
type scope struct {
	function bool // it is in the body of a function
	control  bool // the parentheses of if, for, while, switch, catch or with
	arrow    bool // the body of an arrow function without braces is open in it
}

type scanner struct {
	scopes   []scope
	closed   scope // the last closed bracket
	last     token // the previous token
	started  bool  // there is a previous token
	imported bool  // the previous token is "import"
	starts   bool  // which began a statement at the outermost level
	awaits   bool
	commonJS bool
}

// take reads one token and reports whether it proves a module.
func (s *scanner) take(t token) bool {
	top := &s.scopes[len(s.scopes)-1]
	if t.newline && top.arrow && !s.last.is("=>") && !t.continues() {
		top.arrow = false
	}
	// import.meta is for modules, import(...) for scripts as well.
	if s.imported && (t.is(".") || s.starts && !t.is("(")) {
		return true
	}
	first := !s.started || t.newline || s.last.is(";") || s.last.is("}")
	s.starts = first && len(s.scopes) == 1
	s.imported = false
	proof := false
	if !t.word {
		s.punctuation(t, top)
	} else if !s.last.is(".") {
		proof = s.word(t.text, top)
	}
	s.last, s.started = t, true
	return proof
}

func (s *scanner) word(text string, top *scope) bool {
	switch text {
	case "export":
		return s.starts
	case "import":
		s.imported = true
	case "await":
		s.awaits = s.awaits || !top.function && !top.arrow
	case "require", "module", "exports", "__dirname", "__filename":
		s.commonJS = true
	}
	return false
}

func (s *scanner) punctuation(t token, top *scope) {
	switch t.text {
	case "(", "[", "{", "${":
		inner := scope{function: top.function || top.arrow}
		inner.control = t.is("(") && s.last.word && isControl(s.last.text)
		if t.is("{") && (s.last.is("=>") || s.last.is(")") && !s.closed.control) {
			inner.function = true
		}
		if s.last.is("=>") && t.is("{") {
			top.arrow = false
		}
		s.scopes = append(s.scopes, inner)
	case ")", "]", "}":
		if len(s.scopes) > 1 {
			s.closed = *top
			s.scopes = s.scopes[:len(s.scopes)-1]
		}
	case "=>":
		top.arrow = true
	case ",", ";":
		top.arrow = false
	}
}

func isControl(word string) bool {
	switch word {
	case "if", "for", "while", "switch", "catch", "with", "await": // "for await ("
		return true
	}
	return false
}
