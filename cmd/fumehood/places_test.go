package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestNoCodeWritesTheNextGuest: no directory for code holds the programs that make sandboxes, the targets of their links, or their source.
func TestNoCodeWritesTheNextGuest(t *testing.T) {
	a := testApp(t)
	dir, target := t.TempDir(), t.TempDir()
	name := "fumehood-guest-linux-" + runtime.GOARCH
	if err := os.Symlink(filepath.Join(target, name), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, name), nil, 0o500); err != nil {
		t.Fatal(err)
	}
	named, own := dir, a.LookupEnv
	a.LookupEnv = func(variable string) (string, bool) {
		if variable == "FUMEHOOD_LIBEXEC" {
			return named, named != ""
		}
		return own(variable)
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	check := func(path string, refused bool) {
		t.Helper()
		msg, _ := a.notForCode(resolved(path))
		if strings.Contains(msg, "or programs") != refused {
			t.Errorf("FUMEHOOD_LIBEXEC=%s, workspace %s: %q", named, path, msg)
		}
	}
	check(dir, true)
	check(target, true)
	check(source, false)
	named = ""
	check(dir, false)
	check(filepath.Dir(executable), true)
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) { // not with -trimpath
		check(source, true)
		check(filepath.Join(source, "internal"), true)
	}
}
