package attack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCorpusIsComplete checks that every entry of the corpus is run somewhere, or has a reason.
func TestCorpusIsComplete(t *testing.T) {
	all, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	ids, err := readIndex()
	if err != nil || len(ids) == 0 {
		t.Fatalf("the index: %v, %d entries", err, len(ids))
	}
	known := map[string]bool{}
	for _, id := range ids {
		if known[id] {
			t.Errorf("%s is in the index twice", id)
		}
		known[id] = true
	}
	run := map[string]bool{}
	for _, a := range all {
		run[a.ID] = true
		if !known[a.ID] {
			t.Errorf("%s is not in the index", a.ID)
		}
	}
	for _, id := range ids {
		reason, notYet := attacksNotYet[id]
		_, elsewhere := attacksElsewhere[id]
		switch {
		case notYet && (run[id] || elsewhere):
			t.Errorf("%s is run, and said not to be: %s", id, reason)
		case !notYet && !run[id] && !elsewhere:
			t.Errorf("%s is run nowhere, and nothing says why", id)
		}
	}
	for _, list := range []map[string]bool{keys(attacksNotYet), keys(attacksElsewhere)} {
		for id := range list {
			if !known[id] {
				t.Errorf("%s is listed, but no entry", id)
			}
		}
	}
	t.Logf("%d entries: %d run here, %d not yet", len(ids), len(run), len(attacksNotYet))
}

func keys[V any](m map[string]V) map[string]bool {
	all := map[string]bool{}
	for k := range m {
		all[k] = true
	}
	return all
}

// TestNamedTestsExist looks for the tests that cover the other attacks.
func TestNamedTestsExist(t *testing.T) {
	top := moduleRoot(t)
	found := map[string]map[string]bool{}
	for id, tests := range attacksElsewhere {
		for _, test := range tests {
			folder, name, ok := strings.Cut(test, ": ")
			if found[folder] == nil {
				found[folder] = testsIn(t, filepath.Join(top, folder))
			}
			if !ok || !found[folder][name] {
				t.Errorf("%s is said to be covered by %q; there is no such test", id, test)
			}
		}
	}
}

// moduleRoot is the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("there is no go.mod above this package")
		}
		dir = filepath.Dir(dir)
	}
}

// testsIn returns the names of the test functions in a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// readIndex returns the ids of all attacks that Fumehood covers, run here or not.
func readIndex() ([]string, error) {
	text, err := corpus.ReadFile("corpus/index.txt")
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			ids = append(ids, id)
		}
	}
	return ids, err
}
