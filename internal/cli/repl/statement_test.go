package repl

import (
	"slices"
	"strings"
	"testing"
)

// TestStatements: lines become the statements that the user means.
func TestStatements(t *testing.T) {
	for _, test := range []struct {
		language, typed string
		want            []string
	}{
		{"python", "x = 1\nx", []string{"x = 1", "x"}},
		{"python", "for i in x:\n  a\n\n  b\n\nc", []string{"for i in x:\n  a\n", "  b", "c"}},
		{"python", "if a:\n  b\nelse:\n  c\nd", []string{"if a:\n  b\nelse:\n  c", "d"}},
		{"python", "@cached\ndef f(a,\n\n  b):\n  return '''\n\n  x'''\n\nf()",
			[]string{"@cached\ndef f(a,\n\n  b):\n  return '''\n\n  x'''\n", "f()"}},
		{"python", "f(1, # (\n2)\n'it''s ('\nx = 1 + \\\n2\n'#' # :\nwhile 1: pass", []string{"f(1, # (\n2)",
			"'it''s ('",
			"x = 1 + \\\n2", "'#' # :", "while 1: pass"}},
		{"python", "f(\n\n\ng", []string{"f(\n\n", "g"}}, // two empty lines give up
		{"python", "def f(): # why\n  1\n\n", []string{"def f(): # why\n  1\n"}},
		{"javascript", "let a = {\nb: `\n}`}\na // {\n/* {\n*/ 'it\\'s {'\n'{", []string{"let a = {\nb: `\n}`}",
			"a // {",
			"/* {\n*/ 'it\\'s {'", "'{"}},
		{"bash", "for i in 1; do\necho '\n'\ndone\nif-up; case a in\na) b;; esac\necho a#b \"$(b\n)\" # (\nif a; then b; fi", []string{"for i in 1; do\necho '\n'\ndone",
			"if-up; case a in\na) b;; esac", "echo a#b \"$(b\n)\" # (", "if a; then b; fi"}},
		{"bash", "for i in 1\ndo a\ndone\nwhile a; do if b; then c; fi; done; d\necho if for do\na &&\nb |\nc\n! if a\nthen b; fi", []string{"for i in 1\ndo a\ndone",
			"while a; do if b; then c; fi; done; d", "echo if for do", "a &&\nb |\nc", "! if a\nthen b; fi"}},
		{"bash", "cat <<E > f\n\n\n'if (\nE\na <<-'B'; b <<\"D\"\n\tB\nB\nD\nc <<<E\n((1<<2)); d",
			[]string{"cat <<E > f\n\n\n'if (\nE",
				"a <<-'B'; b <<\"D\"\n\tB\nB\nD", "c <<<E", "((1<<2)); d"}},
		{"python", "s = \"\"\"\n\n\n\"\"\"\ns", []string{"s = \"\"\"\n\n\n\"\"\"", "s"}},
		{"python pasted", "class A:\n  a\n\n  b\nif c:\n  d\n\nelse:\n  e\n\n\nf", []string{"class A:\n  a\n\n  b",
			"if c:\n  d\n\nelse:\n  e\n\n", "f"}},
	} {
		language, pasted := strings.CutSuffix(test.language, " pasted")
		s := Statement{Syntax: Syntaxes[language], Pasted: pasted}
		var got []string
		for line := range strings.SplitSeq(test.typed, "\n") {
			got = append(got, s.Add(line)...)
		}
		got = append(got, s.Take())
		got = slices.DeleteFunc(got, func(code string) bool { return code == "" })
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], "\n")
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %q became %q, not %q", test.language, test.typed, got, test.want)
		}
	}
}

// FuzzStatement: no line is lost, and the parser ends.
func FuzzStatement(f *testing.F) {
	f.Add("python", "def f(:\n '''\n\\\n@a\n  b")
	f.Add("bash", "case x in\n'a\" # \nesac")
	f.Fuzz(func(t *testing.T, language, typed string) {
		s := Statement{Syntax: Syntaxes[language]}
		size := 0
		for line := range strings.SplitSeq(typed, "\n") {
			for _, code := range s.Add(line) {
				size += len(strings.Join(strings.Fields(code), ""))
			}
		}
		if size += len(strings.Join(strings.Fields(s.Take()), "")); size != len(strings.Join(strings.Fields(typed),
			"")) {
			t.Errorf("%d bytes of %q", size, typed)
		}
	})
}
