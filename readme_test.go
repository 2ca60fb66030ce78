package glovebox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeCompiles: the program that README shows first is one that a reader can paste, around their own code and errors.
func TestReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## From Go\n\n")
	imports, body, _ := strings.Cut(section, "\n\n")
	var program strings.Builder
	program.WriteString("package main\n\n" + imports + "\n\nfunc run(ctx context.Context, code string) {\n")
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		program.WriteString(strings.Replace(line, "{ ... }", "{ panic(err) }", 1))
	}
	program.WriteString("}\n\nfunc main() { run(context.Background(), \"print(42)\") }\n")
	file := filepath.Join(t.TempDir(), "main.go")
	source := strings.Replace(program.String(), "import (", `import ("context"; `, 1)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, said, source)
	}
}
