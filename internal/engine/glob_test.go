package engine

import (
	"strings"
	"testing"
	"time"
)

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
	case g[0] == anyDepth:
		return slowMatch(g[1:], elements) || len(elements) > 0 && slowMatch(g, elements[1:])
	}
	return len(elements) > 0 && glob(g[:1]).match(elements[:1]) && slowMatch(g[1:], elements[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("a/**/b/*", "a/x/b/c")
	f.Add("**/**/a*?b/**", "b/a/ab/c/d")
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

// TestGlobCost: a pattern made to be slow is not.
func TestGlobCost(t *testing.T) {
	globs, err := parseGlobs([]string{strings.TrimSuffix(strings.Repeat("**/a/", 100), "/") + "/b"})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(strings.Repeat("a/", 255), "/")
	done := make(chan bool, 1)
	go func() { done <- matchAny(globs, name) }()
	select {
	case matched := <-done:
		if matched {
			t.Error("it matches what it must not")
		}
	case <-time.After(time.Minute): // the slow way takes longer than the age of the universe
		t.Fatal("the work is not bounded")
	}
}
