package check

import "strings"

// names finds calls of known names in the tokens of a program.
type names struct {
	*finder
	tokens  []token
	aliases map[string]string // of names in the program to full ones
	calls   map[string]string // rules by full name
	scanned int               // tokens of arguments that were looked at, in all
}

// Bounds of looking ahead: nested calls would make it quadratic.
const (
	maxArguments = 300
	maxScanned   = 2_000_000
	maxDotted    = 8 // names in a row that are put together
)

func byName(calls []call) map[string]string {
	m := make(map[string]string, len(calls))
	for _, c := range calls {
		m[c.name] = c.rule
	}
	return m
}

// dotted reads "a.b.c" at i, and returns its full name and the index after it.
func (n *names) dotted(i int) (full string, after int) {
	var parts []string
	for ; i < len(n.tokens) && n.tokens[i].kind == name && len(parts) < maxDotted; i++ {
		parts = append(parts, n.tokens[i].text)
		if i+2 >= len(n.tokens) || !n.tokens[i+1].is(".") || n.tokens[i+2].kind != name {
			i++
			break
		}
		i++
	}
	if known, ok := n.aliases[parts[0]]; ok {
		parts[0] = known
	}
	return strings.Join(parts, "."), i
}

// run looks at every token once, and at the arguments of calls.
func (n *names) run() {
	for i := 0; i < len(n.tokens); i++ {
		t := n.tokens[i]
		if t.kind == text {
			n.word(t.at, t.text)
			continue
		}
		if t.kind != name || i > 0 && n.tokens[i-1].is(".") {
			continue
		}
		if i+1 >= len(n.tokens) || !n.tokens[i+1].is(".") && !n.tokens[i+1].is("(") {
			continue
		}
		full, after := n.dotted(i)
		if after < len(n.tokens) && n.tokens[after].is("(") && !(i > 0 && isDefinition(n.tokens[i-1])) {
			n.call(t, full, after)
		}
		if after > i+1 {
			i = after - 1
		}
	}
}

func isDefinition(t token) bool { return t.word("def") || t.word("function") || t.word("class") }

// call judges the call of a name, whose arguments begin after the bracket at open.
func (n *names) call(t token, full string, open int) {
	rule, known := n.calls[full]
	opens := openers[full]
	if !known && !opens {
		return
	}
	decodes, shell := n.arguments(open)
	switch {
	case rule == "eval" && decodes:
		n.add(t.at, "hidden-code", "decoded text in "+quoted(full))
	case rule == "process" && shell:
		n.add(t.at, "shell", "dangerous call "+quoted(full)+" with a shell")
	case rule != "":
		n.add(t.at, rule, described(rule)+" "+quoted(full))
	}
	if argument := open + 1; opens && argument < len(n.tokens) && n.tokens[argument].kind == text && isOutside(n.tokens[argument].text) {
		n.add(n.tokens[argument].at, "outside", "path outside of the workspace "+quoted(n.tokens[argument].text))
	}
}

func described(rule string) string {
	if rule == "shell" {
		return "dangerous call"
	}
	return "call"
}

// arguments looks through the arguments of a call for decoders, and for "shell=True" or "shell: true".
func (n *names) arguments(open int) (decodes, shell bool) {
	depth := 0
	for i := open; i < len(n.tokens) && i < open+maxArguments && n.scanned < maxScanned; i++ {
		n.scanned++
		t := n.tokens[i]
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth == 0 {
				return decodes, shell
			}
		case t.kind == name && decoders[t.text] && i+1 < len(n.tokens) && n.tokens[i+1].is("("):
			decodes = true
		case t.kind == text && t.text == "base64" && i > 0 && n.tokens[i-1].is(","): // Buffer.from(x, "base64")
			decodes = true
		case t.word("shell") && i+2 < len(n.tokens) && (n.tokens[i+1].is("=") || n.tokens[i+1].is(":")) && (n.tokens[i+2].word("True") || n.tokens[i+2].word("true")):
			shell = true
		}
	}
	return decodes, shell
}

// repeats reports a loop without an end that begins at i and starts a process by one of the names within a few tokens.
func (n *names) repeats(i int, starts ...string) {
	const near = 12
	for j := i; j < len(n.tokens) && j < i+near; j++ {
		if n.tokens[j].kind != name || j > 0 && n.tokens[j-1].is(".") {
			continue
		}
		full, after := n.dotted(j)
		for _, start := range starts {
			if full == start && after < len(n.tokens) && n.tokens[after].is("(") {
				n.add(n.tokens[i].at, "fork-bomb", "a loop without an end around "+quoted(full))
			}
		}
	}
}
