package internal_test

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// maxColumns bounds each line of code, comments and docs. A tab counts as tabColumns, any other character as one.
	maxColumns = 120
	tabColumns = 4

	wideLinesFile = "testdata/wide_lines.txt"
)

var updateWideLines = flag.Bool("update-wide-lines", false, "lower the counts in "+wideLinesFile)

// TestLineWidth refuses new lines above maxColumns. wideLinesFile counts the old ones of each directory. Lines may
// move between directories, but their sum may only shrink. After a change that shortens lines, lower the counts:
//
//	go test ./internal -run TestLineWidth -update-wide-lines
func TestLineWidth(t *testing.T) {
	wide := findWideLines(t, "..")
	known := readWideLines(t)
	total, bound := 0, 0
	for _, lines := range wide {
		total += len(lines)
	}
	for _, count := range known {
		bound += count
	}
	switch {
	case total > bound:
		for _, dir := range slices.Sorted(maps.Keys(wide)) {
			if lines := wide[dir]; len(lines) > known[dir] {
				t.Errorf("%s has %d lines above %d columns, %d are known:\n%s",
					dir, len(lines), maxColumns, known[dir], strings.Join(lines, "\n"))
			}
		}
	case *updateWideLines:
		writeWideLines(t, wide)
	case total < bound:
		t.Logf("%d lines above %d columns, %d are known; lower the counts with -update-wide-lines",
			total, maxColumns, bound)
	}
}

func TestLineWidthIsMeasured(t *testing.T) {
	dir := t.TempDir()
	word := strings.Repeat("x", maxColumns)
	src := "// " + word + "\n" + // one word: cannot be wrapped
		"\t" + strings.Repeat("é ", (maxColumns-tabColumns)/2) + "\n" +
		"\t" + strings.Repeat("é ", (maxColumns-tabColumns)/2) + "!\n" +
		"a " + word + "\n"
	if err := os.WriteFile(filepath.Join(dir, "wide.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"wide.go:3", "wide.go:4"}
	if found := findWideLines(t, dir)["."]; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// findWideLines returns the lines above maxColumns, as "file:line", by directory. The changelog records the past and
// is left out.
func findWideLines(t *testing.T, root string) map[string][]string {
	t.Helper()
	wide := map[string][]string{}
	for _, name := range sources(t, root, ".go", ".md", ".sh", ".py", ".js", ".mjs", ".ts") {
		if path.Base(name) == "CHANGELOG.md" {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(src)) {
			number++
			if columns(line) > maxColumns && canWrap(line) {
				dir := path.Dir(name)
				wide[dir] = append(wide[dir], fmt.Sprintf("%s:%d", name, number))
			}
		}
	}
	return wide
}

func columns(line string) int {
	line = strings.TrimRight(line, "\n")
	return len([]rune(line)) + (tabColumns-1)*strings.Count(line, "\t")
}

// canWrap reports whether a line has a blank at which it can be broken. A comment that is one URL has none.
func canWrap(line string) bool {
	text := strings.TrimLeft(strings.TrimSpace(line), "/#-*> ")
	return strings.ContainsAny(text, " \t")
}

func readWideLines(t *testing.T) map[string]int {
	t.Helper()
	file, err := os.Open(wideLinesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	known := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var dir string
		var count int
		if _, err := fmt.Sscan(lines.Text(), &count, &dir); err != nil {
			t.Fatalf("%s: %q: %v", wideLinesFile, lines.Text(), err)
		}
		known[dir] = count
	}
	return known
}

func writeWideLines(t *testing.T, wide map[string][]string) {
	t.Helper()
	var text strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(wide)) {
		fmt.Fprintf(&text, "%4d %s\n", len(wide[dir]), dir)
	}
	if err := os.WriteFile(wideLinesFile, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
