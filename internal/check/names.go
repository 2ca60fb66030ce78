package check

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
)

// vocabulary holds the names that the rules of a language concern.
type vocabulary struct {
	rules map[string]string // by full name
	parts map[string]bool   // these full names, and the modules that contain them
}

func newVocabulary(calls map[string]string, others ...string) *vocabulary {
	v := &vocabulary{map[string]string{}, map[string]bool{}}
	for rule, names := range calls {
		for name := range strings.FieldsSeq(names) {
			v.rules[name] = rule
			others = append(others, name)
		}
	}
	for _, name := range append(others, openers...) {
		for i, c := range name {
			if c == '.' {
				v.parts[name[:i]] = true
			}
		}
		v.parts[name] = true
	}
	return v
}

// names finds calls of known names in the tokens of a program.
type names struct {
	*finder
	*vocabulary
	tokens  *lex.Tokens
	aliases map[string]string // full names by names of the program, where a rule concerns either
	bound   int               // tokens before it have been read for names of a require
}

const (
	maxArguments = 300 // tokens that are searched for the end of a call; without it, nested calls take quadratic time
	maxDotted    = 8   // parts of a dotted name
	unknown      = "?" // stands for any full name that no rule concerns
)

// tok returns the token at i. It returns one of kind None beyond the end, and after too many looks.
func (n *names) tok(i int) lex.Token {
	if n.looks++; n.looks > n.mostLooks() {
		return lex.Token{}
	}
	return n.tokens.Get(i)
}

// known returns a full name, or unknown where no rule concerns it.
func (n *names) known(full string) string {
	if n.parts[full] {
		return full
	}
	return unknown
}

// join returns the full name of a name in a module. It makes no string unless a rule concerns names of the module.
func (n *names) join(module, name string) string {
	if !n.parts[module] {
		return unknown
	}
	return n.known(module + "." + name)
}

// bind records the full name of a name in the program.
func (n *names) bind(local, full string) {
	if !n.parts[full] {
		if _, bound := n.aliases[local]; !bound && !n.parts[local] {
			return // an unbound name is unknown too
		}
		full = unknown
	}
	n.aliases[local] = full
}

// dotted reads up to most parts of a name "a.b.c" from i. The full name of the first part is given. It returns the full
// name of all, and the index after them.
func (n *names) dotted(full string, i, most int) (all string, after int) {
	for ; most > 1 && n.tok(i+1).Is(".") && n.tok(i+2).Kind == lex.Name; most-- {
		i += 2
		full = n.join(full, n.tok(i).Text)
	}
	return full, i + 1
}

// called is dotted for a name that an import may have bound.
func (n *names) called(i int) (full string, after int) {
	full = n.tok(i).Text
	if known, ok := n.aliases[full]; ok {
		full = known
	}
	return n.dotted(full, i, maxDotted)
}

// run checks all calls.
func (n *names) run() {
	for i := 0; i < n.tokens.Len(); i++ {
		t := n.tok(i)
		if t.Kind == lex.Text {
			n.word(t.At, t.Text)
			continue
		}
		if t.Kind != lex.Name || n.tok(i-1).Is(".") {
			continue
		}
		if next := n.tok(i + 1); !next.Is(".") && !next.Is("(") {
			continue
		}
		full, after := n.called(i)
		if n.tok(after).Is("(") && !isDefinition(n.tok(i-1)) {
			n.call(t, full, after)
		}
		i = after - 1
	}
}

func isDefinition(t lex.Token) bool { return t.Word("def") || t.Word("function") || t.Word("class") }

// call checks a call of a full name. The bracket before its arguments is at open.
func (n *names) call(t lex.Token, full string, open int) {
	rule, known := n.rules[full]
	opens := slices.Contains(openers, full)
	if !known && !opens {
		return
	}
	decodes, shell := n.arguments(open)
	switch {
	case rule == "eval" && decodes:
		n.add(t.At, "hidden-code", "decoded text in "+quoted(full))
	case rule == "process" && shell:
		n.add(t.At, "shell", "dangerous call "+quoted(full)+" with a shell")
	case rule != "":
		n.add(t.At, rule, described(rule)+" "+quoted(full))
	}
	if argument := n.tok(open + 1); opens && argument.Kind == lex.Text && isOutside(argument.Text) {
		n.add(argument.At, "outside", "path outside of the workspace "+quoted(argument.Text))
	}
}

func described(rule string) string {
	if rule == "shell" {
		return "dangerous call"
	}
	return "call"
}

// arguments searches the arguments of a call for decoders, and for "shell=True" or "shell: true".
func (n *names) arguments(open int) (decodes, shell bool) {
	depth := 0
	for i := open; i < open+maxArguments; i++ {
		t := n.tok(i)
		switch {
		case t.Kind == lex.None:
			return decodes, shell
		case t.Is("("):
			depth++
		case t.Is(")"):
			if depth--; depth == 0 {
				return decodes, shell
			}
		case t.Kind == lex.Name && slices.Contains(decoders, t.Text) && n.tok(i+1).Is("("):
			decodes = true
		case t.Kind == lex.Text && t.Text == "base64" && n.tok(i-1).Is(","): // Buffer.from(x, "base64")
			decodes = true
		case t.Word("shell") && (n.tok(i+1).Is("=") || n.tok(i+1).Is(":")):
			shell = shell || n.tok(i+2).Word("True") || n.tok(i+2).Word("true")
		}
	}
	return decodes, shell
}

// repeats reports the endless loop at i if it calls one of the names, which start processes, within a few tokens.
func (n *names) repeats(i int, starts ...string) {
	const near = 12
	for j := i; j < i+near; j++ {
		if n.tok(j).Kind != lex.Name || n.tok(j-1).Is(".") {
			continue
		}
		full, after := n.called(j)
		for _, start := range starts {
			if full == start && n.tok(after).Is("(") {
				n.add(n.tok(i).At, "fork-bomb", "an endless loop around "+quoted(full))
			}
		}
	}
}
