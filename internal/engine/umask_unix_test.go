//go:build unix

package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestUmask: the code's user can enter the folders of a living sandbox's packages, regardless of our umask, which a new
// process sets.
func TestUmask(t *testing.T) {
	const variable = "FUMEHOOD_TEST_UMASK"
	if os.Getenv(variable) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUmask$")
		child.Env = append(os.Environ(), variable+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	syscall.Umask(0o077)
	e := &Engine{}
	e.state.dir = t.TempDir()
	root, err := e.packagesOf("i")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "node_modules")
	if err := e.makePackages(sandbox.Spec{ID: "i", Mounts: []sandbox.Mount{{Source: folder, Target: "/node_modules"}}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
}
