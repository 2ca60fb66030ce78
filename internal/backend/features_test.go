package backend

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var update = flag.Bool("update", false, "write the table of features into docs/backends.md")

const (
	paper = "../../docs/backends.md"
	begin = "<!-- the table of features: go test ./internal/backend -update -->\n"
	end   = "<!-- end -->\n"
)

// TestTableOfFeatures: what docs/backends.md says that each backend can do is what the backends say.
func TestTableOfFeatures(t *testing.T) {
	text, err := os.ReadFile(paper)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	is, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/backends.md has no place for the table")
	}
	want := features(t)
	if is == want {
		return
	}
	if !*update {
		t.Fatalf("docs/backends.md has another table of features than the backends; go test ./internal/backend -update writes\n%s", want)
	}
	if err := os.WriteFile(paper, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// features is the table: a line a feature, a column a backend, and below it what becomes of a request for what is
// lacking.
func features(t *testing.T) string {
	set, err := Open(Options{Libexec: os.Getenv("FUMEHOOD_LIBEXEC"), CacheDir: t.TempDir(),
		RunDir: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	var names []sandbox.FeatureName
	head, rule, notes := "| |", "|---|", ""
	cells := map[sandbox.FeatureName]string{}
	for column, b := range set.Backends {
		f, tells := b.(sandbox.Featured)
		if !tells {
			t.Fatalf("%s tells of no features", b.Name())
		}
		head, rule = head+" "+b.Name()+" |", rule+"---|"
		for _, feature := range f.Features() {
			if column == 0 {
				names = append(names, feature.Name)
			}
			cell := "yes"
			if !feature.Has {
				cell = "no"
				notes += fmt.Sprintf("- %s, %s: %s.\n", b.Name(), feature.Name, feature.Detail)
				if feature.Detail == "" {
					t.Errorf("%s lacks %q and does not say what happens instead", b.Name(), feature.Name)
				}
			}
			cells[feature.Name] += " " + cell + " |"
		}
	}
	table := head + "\n" + rule + "\n"
	for _, name := range names {
		if strings.Count(cells[name], "|") != len(set.Backends) {
			t.Errorf("not every backend tells of %q", name)
		}
		table += "| " + string(name) + " |" + cells[name] + "\n"
	}
	return table + "\n" + notes
}
