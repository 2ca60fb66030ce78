package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCloneTree: a link in a source's path is followed only for the host's own paths.
func TestCloneTree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "real", "below"), 0o755),
		os.Symlink("real", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for source, strict := range map[string]error{"real": nil, "real/below": nil, "link": unix.ELOOP,
		"link/below": unix.ELOOP} {
		for flags, want := range map[Flags]error{0: nil, NoLinks: strict} {
			fd, err := CloneTree(filepath.Join(dir, source), flags)
			if err != want {
				t.Errorf("%s with flags %d: %v, want %v", source, flags, err, want)
			}
			if err == nil {
				unix.Close(fd)
			}
		}
	}
}
