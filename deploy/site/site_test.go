package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite makes the site of this repository: every link leads somewhere, and every page is in the index.
func TestSite(t *testing.T) {
	s := site{source: "../..", out: t.TempDir(), version: "v1.2.3"}
	if err := s.make(); err != nil {
		t.Fatal(err)
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
	index, err := os.ReadFile(filepath.Join(s.out, "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pages {
		if !strings.Contains(string(index), `"p":"`+file(p.name)+`"`) {
			t.Errorf("%s cannot be found", p.name)
		}
	}
}

// TestBrokenLinks: links to missing pages and anchors are reported.
func TestBrokenLinks(t *testing.T) {
	source := t.TempDir()
	for name, text := range map[string]string{
		"README.md":    "# Fumehood\n\n[a](docs/a.md) [gone](docs/gone.md) [here](#fumehood) [no](docs/a.md#none)\n",
		"docs/a.md":    "# A\n\n## Part\n\n[back](../README.md) [part](#part) [lost](#lost) <script>alert(1)</script>\n",
		"docs/free.md": "# Free\n",
	} {
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := site{source: source, out: t.TempDir()}
	if err := s.make(); err != nil {
		t.Fatal(err)
	}
	err := s.check()
	if err == nil {
		t.Fatal("broken links were not reported")
	}
	for _, want := range []string{"gone.html", "a.html#none", "a.html#lost"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s was not reported: %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "there is no"); n != 3 {
		t.Errorf("%d are reported: %v", n, err)
	}
	page, err := os.ReadFile(filepath.Join(s.out, "a.html"))
	if err != nil || strings.Contains(string(page), "<script>alert") {
		t.Errorf("raw HTML was kept (%v)", err)
	}
}
