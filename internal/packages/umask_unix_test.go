//go:build unix

package packages

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestUmask: the code's user can enter and read all packages, regardless of our umask, which a new process sets.
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
	c, to := newCache(t), newFolder(t, t.TempDir(), "sandbox")
	digest := layerOf(t, c, map[string]string{"file": "1", "a/b/file": "1"})
	copied := filepath.Join(to, "copied")
	if err := errors.Join(os.Chmod(to, 0o755), New(Config{Dir: c.dir}).Show(sandbox.Layer{Dir: c.tree(digest)}, to,
		"owner", unrecorded), copyFile(filepath.Join(c.tree(digest), "file"), copied)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{c.tree(digest), to} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && (d.IsDir() && info.Mode().Perm() != 0o755 || !d.IsDir() && info.Mode() != 0o644) {
				t.Errorf("%s: %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
