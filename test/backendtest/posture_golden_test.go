//go:build linux

package backendtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGoldenRecord: differences are reported by line, facts of other hosts are not missed, and comments survive an
// update.
func TestGoldenRecord(t *testing.T) {
	const text = `# why a is so
a: 1
[cold pool] b: 2
[fork] b: 3
? c: of some hosts
? d: of some hosts
[x] x: 1
`
	file := filepath.Join(t.TempDir(), "kind.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() *golden {
		g, err := readGolden(file)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	right := []record{
		{way: "cold", lines: []string{"a: 1", "b: 2", "c: of some hosts"}},
		{way: "pool", variant: "x", lines: []string{"a: 1", "b: 2", "c: of some hosts", "x: 1"}},
		{way: "fork", lines: []string{"a: 1", "b: 3", "c: of some hosts"}},
	}
	g := read()
	g.onThisHost(right)
	for _, r := range right {
		if lines := g.diff(r); len(lines) > 0 {
			t.Errorf("%s: %q", r.way, lines)
		}
	}
	for _, c := range []struct {
		name   string
		record record
		want   string
	}{
		{"one is gone", record{"cold", "", []string{"b: 2", "c: of some hosts"}}, "- a: 1"},
		{"one is other", record{"cold", "", []string{"a: 2", "b: 2", "c: of some hosts"}}, "- a: 1\n+ a: 2"},
		{"one is of another way", record{"pool", "", []string{"a: 1", "b: 3", "c: of some hosts"}}, "- b: 2\n+ b: 3"},
		{"one is of another kind of box", record{"pool", "y", []string{"a: 1", "b: 2", "c: of some hosts", "x: 1"}},
			"+ x: 1"},
		{"one of this host is in one way alone", record{"pool", "", []string{"a: 1", "b: 2"}}, "- c: of some hosts"},
		{"one is new", record{"fork", "", []string{"a: 1", "b: 3", "c: of some hosts", "e: 1"}}, "+ e: 1"},
	} {
		g := read()
		g.onThisHost(right)
		if got := strings.Join(g.diff(c.record), "\n"); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	g = read()
	g.take([]record{{"cold", "x", []string{"a: 1", "b: 4", "x: 2"}}, {"pool", "x", []string{"a: 1", "x: 2"}},
		{"fork", "y", []string{"a: 1", "b: 3"}}})
	if err := g.write(file); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	want := "# why a is so\na: 1\n[y] b: 3\n[cold] b: 4\n? c: of some hosts\n? d: of some hosts\n[x] x: 2\n"
	if err != nil || string(after) != want {
		t.Errorf("updated to\n%s, %v", after, err)
	}
	if !slices.Equal(read().facts["b: 4"].in, []string{"cold"}) {
		t.Errorf("read again: %+v", read().facts["b: 4"])
	}
}

// TestImageRecord: a record on an image equals that of the same way, except for optional files of the host's root.
func TestImageRecord(t *testing.T) {
	const file = "inside: file /etc/x"
	g := &golden{facts: map[string]*fact{"a: 1": {in: []string{wayCold, "pool"}}, file: {optional: true},
		"c: of some hosts": {optional: true}}}
	g.onThisHost([]record{{way: wayCold, lines: []string{"a: 1", "c: of some hosts", file}}})
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"a: 1", "c: of some hosts"}, ""},
		{[]string{"a: 1", "c: of some hosts", file, "d: 1"}, "+ d: 1"},
		{[]string{"a: 2"}, "- a: 1\n+ a: 2\n- c: of some hosts"},
	} {
		if got := strings.Join(g.diff(record{way: onImage + wayCold, lines: c.lines}), "\n"); got != c.want {
			t.Errorf("%q: %s", c.lines, got)
		}
	}
}
