package check

import (
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
)

var scriptWords = sync.OnceValue(func() *vocabulary { return newVocabulary(scriptCalls, "cluster.fork") })

// script checks JavaScript and TypeScript.
func (f *finder) script() {
	n := &names{finder: f, vocabulary: scriptWords(), tokens: lex.JavaScript(f.code), aliases: map[string]string{}}
	for i := range n.tokens.Len() {
		t := n.tok(i)
		switch {
		case t.Word("import") && !n.tok(i-1).Is("."):
			n.scriptImport(i)
		case t.Kind == lex.Text && n.tok(i-1).Word("from"):
			n.scriptModule(t)
		case t.Kind == lex.Text && n.tok(i-1).Is("(") && n.tok(i-2).Word("require"):
			n.scriptModule(t)
			n.bindRequired(i)
		case t.Word("while") && (n.has(i+1, "(", "true", ")") || n.has(i+1, "(", "1", ")")),
			t.Word("for") && n.has(i+1, "(", ";", ";", ")"):
			n.repeats(i, "child_process.fork", "child_process.spawn", "child_process.exec", "cluster.fork")
		}
	}
	n.run()
}

// has reports whether the tokens from i have these texts.
func (n *names) has(i int, texts ...string) bool {
	for j, text := range texts {
		if t := n.tok(i + j); t.Text != text || t.Kind == lex.Text {
			return false
		}
	}
	return true
}

func moduleName(spec string) string { return strings.TrimPrefix(spec, "node:") }

func (n *names) scriptModule(t lex.Token) {
	if module := moduleName(t.Text); slices.Contains(scriptNetwork, module) {
		n.add(t.At, "network", "import "+quoted(module))
	}
}

// scriptImport binds the names of "import X from", "import * as X from" or "import {a as b} from" at i. Other imports
// bind no names.
func (n *names) scriptImport(i int) {
	from := i + 1
	for ; !n.tok(from).Word("from") || n.tok(from+1).Kind != lex.Text; from++ {
		switch t := n.tok(from); {
		case t.Word("import"):
			return
		case t.Kind == lex.Name, t.Kind == lex.Text, t.Is("{"), t.Is("}"), t.Is(","), t.Is("*"):
		default:
			return
		}
	}
	module := n.known(moduleName(n.tok(from + 1).Text))
	for j := i + 1; j < from; j++ {
		t := n.tok(j)
		switch {
		case t.Kind != lex.Name || t.Text == "as" || t.Text == "type":
		case n.tok(j + 1).Word("as"): // the name before "as"
			if n.tok(j+2).Kind == lex.Name {
				n.bind(n.tok(j+2).Text, n.join(module, t.Text))
			}
		case n.tok(j - 1).Word("as"):
			if n.tok(j - 2).Is("*") {
				n.bind(t.Text, module)
			}
		case j > i+1 && (n.tok(j+1).Is(",") || n.tok(j+1).Is("}")):
			n.bind(t.Text, n.join(module, t.Text))
		default: // import X, {a} from
			n.bind(t.Text, module)
		}
	}
}

// bindRequired binds the names of "X = require(" or "{a, b: c} = require(", whose string is at i. It also checks a
// method call on the result.
func (n *names) bindRequired(i int) {
	module := n.known(moduleName(n.tok(i).Text))
	if method := n.tok(i + 3); n.has(i+1, ")", ".") && method.Kind == lex.Name && n.has(i+4, "(") {
		n.call(method, n.join(module, method.Text), i+4)
	}
	j := i - 4 // the token before "= require ("
	if !n.tok(j + 1).Is("=") {
		return
	}
	if t := n.tok(j); t.Kind == lex.Name {
		n.bind(t.Text, module)
		return
	}
	if !n.tok(j).Is("}") {
		return
	}
	for j--; j >= n.bound && !n.tok(j).Is("{"); j-- {
		t := n.tok(j)
		switch {
		case t.Kind != lex.Name:
		case n.tok(j+1).Is(":") && n.tok(j+2).Kind == lex.Name:
			n.bind(n.tok(j+2).Text, n.join(module, t.Text))
		case !n.tok(j - 1).Is(":"):
			n.bind(t.Text, n.join(module, t.Text))
		}
	}
	n.bound = i
}
