package hostfiles

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplace: a file keeps its mode and owner, and a failure leaves no file.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	owner := os.Getuid()
	if owner == 0 {
		owner = 65533
	}
	if err := Replace(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatal(info, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, owner, -1); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("%+v, %v", info, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
		t.Errorf("%s, %v", text, err)
	}
	folder := filepath.Join(filepath.Dir(path), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(folder, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 2 {
		t.Error(left, err)
	}
}
