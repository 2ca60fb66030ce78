package internal_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mapLine is a line of the map in ARCHITECTURE.md: the indentation gives the parent, the first word the folder.
var mapLine = regexp.MustCompile(`^ {4}( *)([\w-]\S*)/\s`)

// TestArchitectureMap compares the map in ARCHITECTURE.md with the packages of the product.
func TestArchitectureMap(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := strings.Cut(string(text), "## The map\n")
	found, _, _ = strings.Cut(found, "\n\n`deps_test.go`")
	mapped := map[string]bool{}
	var parents []string // by depth
	for line := range strings.Lines(found) {
		m := mapLine.FindStringSubmatch(line)
		if m == nil || len(m[1])/2 > len(parents) { // a deeper line continues the text of the line before
			continue
		}
		parents = append(parents[:len(m[1])/2], m[2])
		dir := path.Join(parents...)
		mapped[dir] = true
		if info, err := os.Stat(filepath.Join("..", dir)); err != nil || !info.IsDir() {
			t.Errorf("the map has %s, which does not exist", dir)
		}
	}
	for _, name := range sources(t, "..", ".go") {
		dir := path.Dir(name)
		helper := strings.HasSuffix(dir, "test") // for the tests of the package above
		if strings.HasPrefix(dir, "internal/") && !helper && !mapped[dir] && path.Dir(dir) != "internal/lang" {
			mapped[dir] = true // report it once
			t.Errorf("the map lacks %s", dir)
		}
	}
}
