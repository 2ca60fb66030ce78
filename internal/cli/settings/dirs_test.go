package settings

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
)

// TestOwnPathsProtected: no workspace contains the programs that make sandboxes, the targets of their links, or their
// source.
func TestOwnPathsProtected(t *testing.T) {
	dir, target := t.TempDir(), t.TempDir()
	name := "fumehood-guest-linux-" + runtime.GOARCH
	if err := os.Symlink(filepath.Join(target, name), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, name), nil, 0o500); err != nil {
		t.Fatal(err)
	}
	home, named := t.TempDir(), dir
	env := Environment(func(variable string) (string, bool) {
		switch variable {
		case "FUMEHOOD_LIBEXEC":
			return named, named != ""
		case "HOME":
			return home, true
		}
		return "", false
	})
	host := hostfiles.Host{Own: env.OwnPaths}
	source, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	check := func(path string, refused bool) {
		t.Helper()
		_, err := host.Workspace(path)
		if (err != nil && strings.Contains(err.Error(), "or programs")) != refused {
			t.Errorf("FUMEHOOD_LIBEXEC=%s, workspace %s: %v", named, path, err)
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
