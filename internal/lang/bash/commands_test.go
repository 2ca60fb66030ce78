package bash

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestCommands(t *testing.T) {
	const script = "f() { jq .; }\nf | sudo rg x && exec curl \"$u\"\nalias ll='ls -l'; ll\n$cmd; \"quoted\" " +
		"<(dot) # tree\ncat <<E\n$(wc -l)\nE\n"
	var names []string
	for _, i := range Commands([]byte(script)) {
		names = append(names, i.Name)
	}
	if want := []string{"jq", "rg", "curl", "alias", "dot", "cat", "wc"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if found := Commands([]byte("if then")); len(found) != 0 {
		t.Errorf("%v", found)
	}
	// The deepest scripts: more stack than this would end the test.
	defer debug.SetMaxStack(debug.SetMaxStack(128 << 20))
	for _, piece := range []string{"(", "$(", "$((", "((", "`", "[[ (", "! ", "if ", "{ ", "${a:-", "\"$(",
		"case x in x) ", "f() ", "<(", "a=(", "$((-", "while "} {
		Commands([]byte(strings.Repeat(piece, maxScript/len(piece))))
	}
}
