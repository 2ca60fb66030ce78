// Package internal_test checks properties of all source in this module.
package internal_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fumehood-dev/fumehood"

// The bounds of what one reader can hold in mind. Good and bad code have the same medians; they differ in the largest.
const (
	maxFileLines     = 500
	maxFunctionLines = 70 // from "func" to the closing brace; test functions are exempt
	maxParameters    = 5
	maxStructFields  = 20 // fields of embedded structs count
)

// maxWideStructs bounds the structs that are too large only if the fields of embedded structs count. It may only
// shrink.
const maxWideStructs = 21

// exceptions maps larger ones to the reason. An exception that is no longer needed fails the test.
var exceptions = map[string]string{
	"internal/host/fork/fork_linux.go:forkExec":  "between fork and exec no call may grow the stack or be preempted",
	"internal/guest/server/process.go:process":   "one lock guards the request and the state of a process",
	"internal/engine/engine.go:Config":           "callers set the fields by name",
	"sandbox/language.go:Language":               "one value has all facts about a language",
	"internal/guest/client/fuzz_test.go:hostile": "a fuzzer passes generated values as arguments",
}

// excess is a file, function or struct above its bound. Its name is "file", "file:function", "file:Type.method" or
// "file:Type".
type excess struct {
	name  string
	what  string
	size  int
	bound int
}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	var wide []string
	for _, e := range measureTree(t, "..") {
		if e.what == "fields with those of embedded structs" {
			wide = append(wide, fmt.Sprintf("%s has %d", e.name, e.size))
			continue
		}
		used[e.name] = true
		if exceptions[e.name] == "" {
			t.Errorf("%s has %d %s; the bound is %d", e.name, e.size, e.what, e.bound)
		}
	}
	if len(wide) > maxWideStructs {
		t.Errorf("%d structs have more than %d fields, those of embedded structs included; %d are known:\n%s",
			len(wide), maxStructFields, maxWideStructs, strings.Join(wide, "\n"))
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("%s is within its bounds; remove its exception", name)
		}
	}
}

func TestSizesAreMeasured(t *testing.T) {
	dir := t.TempDir()
	var src strings.Builder
	src.WriteString("package p\n\ntype wide struct {\n")
	for i := range maxStructFields + 1 {
		fmt.Fprintf(&src, "\tf%d int\n", i)
	}
	src.WriteString("}\n\ntype embeds struct{ *wide }\n")
	src.WriteString("\nfunc (w *wide) long(a, b, c int, d, e, f string) {\n")
	src.WriteString(strings.Repeat("\n", maxFileLines))
	src.WriteString("}\n")
	other := "package q\n\nimport alias \"" + module + "/p\"\n\ntype imports struct{ alias.Wide }\n"
	big := strings.ReplaceAll(src.String(), "wide", "Wide")
	for name, src := range map[string]string{"p/big.go": big, "q/q.go": other} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, e := range measureTree(t, dir) {
		names = append(names, e.name+" "+e.what)
	}
	want := []string{
		"p/big.go lines", "p/big.go:Wide fields", "p/big.go:Wide.long lines", "p/big.go:Wide.long parameters",
		"p/big.go:embeds fields with those of embedded structs", "q/q.go:imports fields with those of embedded structs",
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
}

// sources lists the files below dir with one of the extensions, relative to dir. It leaves out other modules,
// hidden folders, test data and build output.
func sources(t *testing.T, dir string, extensions ...string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if rel != "." && foreign(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.Contains(extensions, filepath.Ext(name)) {
			paths = append(paths, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// unreadFolders have test data, build output, and other people's code.
var unreadFolders = []string{"testdata", "build", "dist", "generated", "node_modules"}

func foreign(dir string) bool {
	name := filepath.Base(dir)
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || strings.HasPrefix(name, ".") || slices.Contains(unreadFolders, name)
}

// goFile is one parsed file. Its dir is the import path within the module.
type goFile struct {
	path, dir string
	src       []byte
	positions *token.FileSet
	syntax    *ast.File
}

func measureTree(t *testing.T, root string) []excess {
	t.Helper()
	var files []goFile
	structs := map[string]structType{}
	for _, name := range sources(t, root, ".go") {
		file := parse(t, root, name)
		files = append(files, file)
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[file.dir+"."+spec.Name.Name] = structType{file, s}
				}
			}
			return true
		})
	}
	var found []excess
	for _, file := range files {
		if !ast.IsGenerated(file.syntax) {
			found = append(found, measure(file, structs)...)
		}
	}
	return found
}

func parse(t *testing.T, root, name string) goFile {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return goFile{name, path.Dir(name), src, positions, syntax}
}

func measure(file goFile, structs map[string]structType) []excess {
	var found []excess
	note := func(name, what string, size, bound int) {
		if size > bound {
			found = append(found, excess{name, what, size, bound})
		}
	}
	note(file.path, "lines", bytes.Count(file.src, []byte("\n")), maxFileLines)
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := file.path + ":" + functionName(n)
			if !strings.HasSuffix(file.path, "_test.go") {
				lines := file.positions.Position(n.End()).Line - file.positions.Position(n.Pos()).Line + 1
				note(name, "lines", lines, maxFunctionLines)
			}
			note(name, "parameters", n.Type.Params.NumFields(), maxParameters)
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				name, what := file.path+":"+n.Name.Name, "fields"
				if s.Fields.NumFields() <= maxStructFields {
					what = "fields with those of embedded structs"
				}
				note(name, what, structType{file, s}.countFields(structs), maxStructFields)
			}
		}
		return true
	})
	return found
}

// structType is a struct and the file that declares it.
type structType struct {
	file goFile
	*ast.StructType
}

// countFields counts fields, and those of embedded structs of this module instead of the embedding. structs maps
// "dir.Name" to each struct. Other embedded types count as one field.
func (s structType) countFields(structs map[string]structType) int {
	count := 0
	for _, field := range s.Fields.List {
		if len(field.Names) > 0 {
			count += len(field.Names)
			continue
		}
		if embedded, ok := structs[s.file.qualify(field.Type)]; ok {
			count += embedded.countFields(structs)
		} else {
			count++
		}
	}
	return count
}

// qualify returns "dir.Name" for the name of a type of this module, and "" for other types.
func (f goFile) qualify(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return f.qualify(expr.X)
	case *ast.IndexExpr:
		return f.qualify(expr.X)
	case *ast.Ident:
		return f.dir + "." + expr.Name
	case *ast.SelectorExpr:
		for _, spec := range f.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			dir, ours := strings.CutPrefix(imported, module)
			if x, ok := expr.X.(*ast.Ident); ok && ours && x.Name == name {
				return cmp.Or(strings.TrimPrefix(dir, "/"), ".") + "." + expr.Sel.Name
			}
		}
	}
	return ""
}

// functionName returns "name", or "Type.name" for a method.
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
