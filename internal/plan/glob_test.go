package plan

import (
	"path"
	"strings"
	"testing"
)

func matchAny(globs Globs, name string) bool {
	m := globs.Matcher()
	return m.Matches(name)
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern string
		match   string // names, separated by spaces
		not     string
	}{
		{"**", "a a/b a/b/c .hidden", ""},
		{"*.csv", "a.csv .csv", "d/a.csv a.csvx"},
		{"**/*.csv", "a.csv d/a.csv d/e/a.csv", "a.txt d/a.csv/b"},
		{"out/**", "out/a out/b/c", "outer/a a/out/b"},
		{"out/", "out/a out/b/c", "outa"},
		{"/workspace/out/*", "out/a", "out/a/b workspace/out/a"},
		{"./a?", "ab a\xff", "a abc"},
		{"a/**/b/**/c", "a/b/c a/x/b/c a/b/x/y/c a/b/b/c/c", "a/c a/b a/b/c/d"},
		{"**/x/**", "x/a a/x/b x/x", "a/b xx/a"},
		{"[a-c]*", "a1 c", "d1"},
		{`\*`, "*", "a"},
	} {
		globs, err := parseGlobs([]string{test.pattern})
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		for _, name := range strings.Fields(test.match) {
			if !matchAny(globs, name) {
				t.Errorf("%q does not match %q", test.pattern, name)
			}
		}
		for _, name := range strings.Fields(test.not) {
			if matchAny(globs, name) {
				t.Errorf("%q matches %q", test.pattern, name)
			}
		}
	}
	for _, bad := range []string{"", "../a", "a/../b", "/etc/*", "a//b", "[", "./", strings.Repeat("a", MaxGlob+1)} {
		if _, err := parseGlobs([]string{bad}); err == nil && bad != "./" {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
}

// slowMatch is the rule, without thought of cost, which is exponential.
func slowMatch(g glob, elements []string) bool {
	switch {
	case len(g) == 0:
		return len(elements) == 0
	case g[0].pattern == anyDepth:
		return slowMatch(g[1:], elements) || len(elements) > 0 && slowMatch(g, elements[1:])
	case len(elements) == 0:
		return false
	}
	matched, _ := path.Match(g[0].pattern, elements[0])
	return matched && slowMatch(g[1:], elements[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("a/**/b/*", "a/x/b/c")
	f.Add("**/**/a*?b/**", "b/a/ab/c/d")
	for _, pattern := range []string{"[*]b", `\*b`, `a\*b`, "a*b", "[!a]*]", `*\]`, "ab*b", "é*\xff", "[a-c]?*"} {
		// where a beginning or an end looks plain
		for _, name := range []string{"*b", "ab", "a*b", "a]", "]", "abb", "é\xff", "c\xff"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		globs, err := parseGlobs([]string{pattern})
		if err != nil || len(pattern) > 24 || len(name) > 24 {
			return
		}
		if fast, slow := matchAny(globs, name), slowMatch(globs[0], strings.Split(name, "/")); fast != slow {
			t.Errorf("%q on %q: %v, want %v", pattern, name, fast, slow)
		}
	})
}

// slowest are as many patterns as there may be, each as slow as we know to make it, and a path for them.
func slowest(tb testing.TB) (globs Globs, name string) {
	tb.Helper()
	class := "*" + strings.Repeat("[a-é]", MaxGlob/6-1) + "b"
	star := "*" + strings.Repeat("a", 127) + "b"
	var patterns []string
	for range MaxGlobs / 2 {
		patterns = append(patterns, class, strings.Repeat("**/"+star+"/", 6)+star)
	}
	globs, err := parseGlobs(patterns)
	if err != nil {
		tb.Fatal(err)
	}
	return globs, strings.TrimSuffix(strings.Repeat(strings.Repeat("a", MaxName)+"/", MaxPath/(MaxName+1)), "/")
}

// TestGlobCost: however slow the patterns are made, the work ends with the budget; and a budget has room for what
// people ask.
func TestGlobCost(t *testing.T) {
	const listed = 100_000 // paths; as many as the engine examines
	globs, name := slowest(t)
	m := globs.Matcher()
	tried := 0
	for ; tried < listed && !m.Exhausted(); tried++ {
		m.Matches(name)
	}
	if tried == listed {
		t.Error("100,000 of the slowest paths were matched: nothing bounds the work")
	}
	if m.Matches(name) {
		t.Error("it matches with no steps left")
	}

	globs, err := parseGlobs([]string{"**/*.csv", "**/*.png", "out/**", "*.txt", "**/report-*.html", "plot?.svg",
		"data/**/[a-z]*.json"})
	if err != nil {
		t.Fatal(err)
	}
	m = globs.Matcher()
	for range listed {
		m.Matches("project/node_modules/some-package/lib/internal/index.js")
	}
	if m.Exhausted() {
		t.Error("usual patterns and as many files as are looked at exceed the budget")
	}
}

// BenchmarkGlobBudget is how long all steps take at the worst.
func BenchmarkGlobBudget(b *testing.B) {
	globs, name := slowest(b)
	for b.Loop() {
		for m := (globs.Matcher()); !m.Exhausted(); {
			m.Matches(name)
		}
	}
}
