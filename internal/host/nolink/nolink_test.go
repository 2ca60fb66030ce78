package nolink

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestLinks: every way of opening refuses a link anywhere in the path, and opens everything else.
func TestLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED, NOT TESTED: links need a privilege there")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, file := filepath.Join(top, "real"), filepath.Join(top, "real", "file")
	if err := errors.Join(os.Mkdir(real, 0o700), os.WriteFile(file, []byte("text"), 0o600),
		os.Symlink("real", filepath.Join(top, "link")),
		os.Symlink("file", filepath.Join(real, "last"))); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(string, int, os.FileMode) (*os.File, error){"by the kernel": Open,
		"by looking": openLooking} {
		for path, linked := range map[string]bool{file: false, filepath.Join(real, "last"): true,
			filepath.Join(top, "link", "file"): true} {
			f, err := open(path, os.O_RDONLY, 0)
			if err == nil {
				f.Close()
			}
			if (err != nil) != linked || err != nil && (sandbox.KindOf(err) != sandbox.Invalid ||
				sandbox.FixOf(err) == "" ||
				strings.Contains(err.Error(), "leads")) {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
	}
	if root, err := OpenRoot(filepath.Join(top, "link")); err == nil {
		root.Close()
		t.Error("a folder is opened through a link")
	}
	root, err := OpenRoot(real)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if text, err := root.ReadFile("file"); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}
