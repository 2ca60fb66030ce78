package check

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What benign scripts there are: our own, and those that packages of the host ship as examples and as programs. Each is
// read up to maxBenign bytes.
const (
	leastBenign = 200
	mostBenign  = 2000
	maxBenign   = 256 << 10
	mostRefused = 2 // of 100 benign scripts
)

var benignFolders = []string{"../../examples", "../../test/soak/programs", "../../test/langtest/testdata",
	"../../scripts", "/usr/share/doc", "/usr/share",
	"/usr/lib/python3/dist-packages", "/usr/lib/python3.11/turtledemo", "/usr/bin", "/usr/lib/node_modules"}

var shellLine = regexp.MustCompile(`^#! ?\S*[/ ](?:env )?(?:ba|da)?sh\b`)

// languageOf returns the language of a benign script by its extension or its first line, or "" if there are no rules
// for it.
func languageOf(path string, code []byte) string {
	first, _, _ := bytes.Cut(code, []byte("\n"))
	switch ext := filepath.Ext(path); {
	case ext == ".py" || bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("python")):
		return "python"
	case ext == ".sh" || shellLine.Match(first):
		return "bash"
	case ext == ".js" || ext == ".mjs" || ext == ".ts":
		return "javascript"
	}
	return ""
}

// isExample leaves out libraries: of the host, only examples, demonstrations and programs count.
func isExample(folder, path string) bool {
	return strings.HasPrefix(folder, "..") || folder == "/usr/bin" || strings.Contains(path, "example") ||
		strings.Contains(path, "demo") || strings.Contains(path, "/tools/")
}

// TestBenign measures how many benign scripts the checks refuse.
func TestBenign(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: it reads what the packages of the host ship")
	}
	seen, refused := map[string]bool{}, 0
	for _, folder := range benignFolders {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !isExample(folder, path) || strings.Contains(path, "hostile") ||
				len(seen) >= mostBenign {
				return nil
			}
			code, err := os.ReadFile(path)
			if err != nil || len(code) > maxBenign || seen[string(code)] {
				return nil
			}
			language := languageOf(path, code)
			if language == "" {
				return nil
			}
			seen[string(code)] = true
			for _, f := range (Policy{}).Find(language, code) {
				if f.Refuses {
					refused++
					t.Logf("%s:%d: %s: %s", path, f.Line, f.Rule, f.Message)
					break
				}
			}
			return nil
		})
	}
	t.Logf("%d of %d benign scripts are refused", refused, len(seen))
	if len(seen) < leastBenign {
		t.Skipf("this host has %d benign scripts; %d are needed", len(seen), leastBenign)
	}
	if refused*100 > mostRefused*len(seen) {
		t.Errorf("%d of %d benign scripts are refused; the bound is %d %%", refused, len(seen), mostRefused)
	}
}
