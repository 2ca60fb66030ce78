package hostfiles

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestReadTrusted: a file that another user can have written is refused.
func TestReadTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give files to another user")
	}
	const stranger = 65533
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode            os.FileMode
		uid, gid        int
		named, believed bool
	}{
		{0o664, 0, 0, false, true},
		{0o640, 0, stranger, false, true},
		{0o660, 0, stranger, true, false},
		{0o602, 0, 0, true, false},
		{0o600, stranger, stranger, false, false},
		{0o600, stranger, stranger, true, true},
	} {
		if err := errors.Join(os.Chown(path, c.uid, c.gid), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTrusted(path, c.named); (err == nil) != c.believed || err != nil && sandbox.FixOf(err) == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
