package langtest

import (
	"io/fs"
	"strings"
	"testing"
)

// TestCasesParse finds a broken case without an engine.
func TestCasesParse(t *testing.T) {
	count := 0
	err := fs.WalkDir(testdata, "testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(path, "testdata/programs/") {
			return nil
		}
		count++
		text, err := testdata.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".txtar") {
			t.Errorf("%s is no text archive", path)
		}
		if _, err := parseCase(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Fatalf("%d cases, %v", count, err)
	}
}
