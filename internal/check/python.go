package check

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
)

var pythonWords = sync.OnceValue(func() *vocabulary {
	return newVocabulary(pythonCalls, append([]string{"os.fork"}, pythonNetwork...)...)
})

// python checks Python.
func (f *finder) python() {
	n := &names{finder: f, vocabulary: pythonWords(), tokens: lex.Python(f.code), aliases: map[string]string{}}
	n.pythonImports()
	for i := range n.tokens.Len() {
		if t := n.tok(i); t.Word("while") && (n.tok(i+1).Word("True") || n.tok(i+1).Word("1")) {
			n.repeats(i, "os.fork", "os.system", "subprocess.Popen")
		}
	}
	n.run()
	n.servedShell()
}

// pythonImports binds the names of all import statements.
func (n *names) pythonImports() {
	module, at := "", int32(-1)
	for one := range n.tokens.Imports {
		if one.ModuleAt != at {
			module, at = n.known(one.Module), one.ModuleAt
			n.imported(at, module)
		}
		if one.Name == "" {
			if one.Alias != "" {
				n.bind(one.Alias, module)
			}
			continue
		}
		full := n.join(module, one.Name)
		n.bind(cmp.Or(one.Alias, one.Name), full)
		if n.rules[full] == "shell" {
			n.add(one.NameAt, "shell", "dangerous import "+quoted(full))
		}
		n.imported(one.NameAt, full)
	}
}

func (n *names) imported(at int32, module string) {
	if slices.Contains(pythonNetwork, module) {
		n.add(at, "network", "import "+quoted(module))
	}
}

// servedShell reports a shell whose streams are a connection.
func (n *names) servedShell() {
	shell, connected := false, -1
	for i := range n.tokens.Len() {
		t := n.tok(i)
		switch {
		case t.Kind == lex.Text && slices.Contains([]string{"/bin/sh", "/bin/bash", "sh", "bash"}, t.Text):
			shell = true
		case t.Word("dup2") && n.tok(i+1).Is("(") && n.tok(i+4).Word("fileno"):
			connected = i
		}
	}
	if shell && connected >= 0 {
		n.add(n.tok(connected).At, "reverse-shell", "a shell on a connection")
	}
}
