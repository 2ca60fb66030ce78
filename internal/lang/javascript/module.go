package javascript

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
)

// IsModule reports whether code must run as a module: it imports, exports or awaits at its top level. It reads tokens
// rather than grammar. Where it errs, Node's message about modules names the fix.
func IsModule(code []byte) bool {
	module, _ := scan(code)
	return module
}

// scan reports whether code must run as a module, and if so, whether it also uses names of CommonJS.
func scan(code []byte) (module, commonJS bool) {
	text := string(code)
	isIn := func(word string) bool { return strings.Contains(text, word) }
	if !slices.ContainsFunc([]string{"import", "export", "await"}, isIn) {
		return false, false
	}
	s := scanner{scopes: make([]scope, 1, 16)}
	lex.EachJavaScript(text, func(t lex.Token) bool {
		module = s.take(t) || module
		return len(s.scopes) <= maxScopes
	})
	return module || s.awaits && len(s.scopes) <= maxScopes, s.commonJS
}

// scriptNames is a module that Node loads before the program. It defines the names of a CommonJS script, which contexts
// have too, so that code with both kinds of modules runs.
const scriptNames = `import Module, { createRequire } from "node:module";
import path from "node:path";
const file = process.argv[1], module = new Module(file, null), require = createRequire(file);
module.filename = file;
module.paths = Module._nodeModulePaths(path.dirname(file));
module.require = require;
require.main = process.mainModule = module;
const names = { require, module, exports: module.exports, __filename: file, __dirname: path.dirname(file) };
for (const [name, value] of Object.entries(names)) {
  Object.defineProperty(globalThis, name, { configurable: true, writable: true, value });
}`

var scriptNamesURL = sync.OnceValue(func() string { return "data:text/javascript," + url.PathEscape(scriptNames) })

// cell returns the command line for a module that uses names of CommonJS, or nil.
func cell(code []byte) func(program, path string) []string {
	if module, commonJS := scan(code); !module || !commonJS {
		return nil
	}
	return func(program, path string) []string { return []string{program, "--import", scriptNamesURL(), path} }
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
	proof := s.imported && (t.Is(".") || s.starts && !t.Is("("))
	s.starts = len(s.scopes) == 1 && (t.First || s.last.Is(";") || s.last.Is("}"))
	s.imported = false
	if t.Kind == lex.Mark {
		s.mark(t, top)
	} else if t.Kind == lex.Name && !s.last.Is(".") {
		proof = s.word(t.Text, top) || proof
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
