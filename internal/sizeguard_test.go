// Package internal_test holds what is true of all source in this module at once.
package internal_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What one reader holds in mind at once. Good and bad code have the same medians; they differ in the largest.
const (
	maxFileLines     = 500
	maxFunctionLines = 70 // from "func" to the closing brace; tests may be longer, a table is no logic
	maxParameters    = 5
	maxStructFields  = 20
)

// exceptions names what may be larger, and why. One that is no longer needed fails the test.
var exceptions = map[string]string{
	"internal/host/fork/fork_linux.go:forkExec":  "between fork and exec nothing may be called that the Go runtime could grow or schedule, so it is one function",
	"internal/guest/server/process.go:process":   "one started process: what it was asked for, and what became of it, under one lock",
	"internal/engine/engine.go:Config":           "all that an engine is made of, which its callers fill in by name",
	"sandbox/language.go:Language":               "one value says all that is known of a language",
	"internal/guest/client/fuzz_test.go:hostile": "what a fuzzer makes comes in as many arguments",
}

// excess is one thing above its bound. Its name is "file", "file:function", "file:Type.method" or "file:Type".
type excess struct {
	name  string
	what  string
	size  int
	bound int
}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	for _, path := range sources(t, "..") {
		for _, e := range measure(t, "..", path) {
			used[e.name] = true
			if exceptions[e.name] == "" {
				t.Errorf("%s has %d %s; the bound is %d", e.name, e.size, e.what, e.bound)
			}
		}
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("%s is within its bounds and needs no exception any more", name)
		}
	}
}

// A guard that sees nothing passes always.
func TestSizesAreMeasured(t *testing.T) {
	dir := t.TempDir()
	var src strings.Builder
	src.WriteString("package p\n\ntype wide struct {\n")
	for i := range maxStructFields + 1 {
		fmt.Fprintf(&src, "\tf%d int\n", i)
	}
	src.WriteString("}\n\nfunc (w *wide) long(a, b, c int, d, e, f string) {\n")
	src.WriteString(strings.Repeat("\n", maxFileLines))
	src.WriteString("}\n")
	if err := os.WriteFile(filepath.Join(dir, "big.go"), []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range sources(t, dir) {
		for _, e := range measure(t, dir, path) {
			names = append(names, e.name+" "+e.what)
		}
	}
	want := []string{"big.go lines", "big.go:wide fields", "big.go:wide.long lines", "big.go:wide.long parameters"}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
}

// sources lists the Go files below dir, relative to it. Other modules in the tree, test data and what was built are not ours to judge.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if rel != "." && foreign(path) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			paths = append(paths, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func foreign(dir string) bool {
	name := filepath.Base(dir)
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "build"
}

func measure(t *testing.T, dir, path string) []excess {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	var found []excess
	note := func(name, what string, size, bound int) {
		if size > bound {
			found = append(found, excess{name, what, size, bound})
		}
	}
	note(path, "lines", bytes.Count(src, []byte("\n")), maxFileLines)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := path + ":" + functionName(n)
			if !strings.HasSuffix(path, "_test.go") {
				note(name, "lines", files.Position(n.End()).Line-files.Position(n.Pos()).Line+1, maxFunctionLines)
			}
			note(name, "parameters", n.Type.Params.NumFields(), maxParameters)
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				note(path+":"+n.Name.Name, "fields", s.Fields.NumFields(), maxStructFields)
			}
		}
		return true
	})
	return found
}

// functionName is "name", or "Type.name" of a method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if ident, ok := receiver.(*ast.Ident); ok {
		return ident.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
