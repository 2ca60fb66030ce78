package javascript

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
)

// IsModule reports whether code must run as a module: it imports or exports at its top level, or awaits there and uses
// nothing of CommonJS. It reads tokens rather than grammar. Where it errs, Node's message about modules names the fix.
func IsModule(code []byte) bool {
	text := string(code)
	isIn := func(word string) bool { return strings.Contains(text, word) }
	if !slices.ContainsFunc([]string{"import", "export", "await"}, isIn) {
		return false
	}
	s := scanner{scopes: make([]scope, 1, 16)}
	tokens := lex.JavaScript(text)
	for i := range tokens.Len() {
		if s.take(tokens.Get(i)) {
			return true
		}
		if len(s.scopes) > maxScopes {
			return false
		}
	}
	return s.awaits && !s.commonJS
}

// maxScopes limits the depth of brackets. Deeper code counts as a script.
const maxScopes = 1024

// scope is an open bracket, or the outermost level.
type scope struct {
	function bool // it is in the body of a function
	control  bool // the parentheses of if, for, while, switch, catch or with
	arrow    bool // the body of an arrow function without braces is open in it
}

type scanner struct {
	scopes   []scope
	closed   scope     // the last closed bracket
	last     lex.Token // the previous token
	imported bool      // the previous token is "import"
	starts   bool      // the previous token began a statement at the outermost level
	awaits   bool
	commonJS bool
}

// take reads one token and reports whether it proves a module.
func (s *scanner) take(t lex.Token) bool {
	top := &s.scopes[len(s.scopes)-1]
	if t.First && top.arrow && !s.last.Is("=>") && (t.Kind != lex.Mark || t.Is("{") || t.Is("}") || t.Is(";")) {
		top.arrow = false // no operator continues the expression of the previous line
	}
	// import.meta is for modules, import(...) for scripts as well.
	if s.imported && (t.Is(".") || s.starts && !t.Is("(")) {
		return true
	}
	s.starts = len(s.scopes) == 1 && (t.First || s.last.Is(";") || s.last.Is("}"))
	s.imported = false
	proof := false
	if t.Kind == lex.Mark {
		s.mark(t, top)
	} else if t.Kind == lex.Name && !s.last.Is(".") {
		proof = s.word(t.Text, top)
	}
	s.last = t
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

func (s *scanner) mark(t lex.Token, top *scope) {
	switch t.Text {
	case "(", "[", "{", "${":
		inner := scope{function: top.function || top.arrow}
		inner.control = t.Is("(") && s.last.Kind == lex.Name && slices.Contains(controls, s.last.Text)
		if t.Is("{") && (s.last.Is("=>") || s.last.Is(")") && !s.closed.control) {
			inner.function = true
		}
		if s.last.Is("=>") && t.Is("{") {
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

// controls are the words before parentheses that do not begin a function.
var controls = []string{"if", "for", "while", "switch", "catch", "with", "await"} // "for await ("
