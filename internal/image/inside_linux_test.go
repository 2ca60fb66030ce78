package image

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOpenDuringRenames: a link with ".." can be followed while others rename folders on this host.
func TestOpenDuringRenames(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "a")
	for _, err := range []error{os.Mkdir(filepath.Join(dir, "var"), 0o700), os.Mkdir(filepath.Join(dir, "run"), 0o700),
		os.Symlink("../run", filepath.Join(dir, "var", "run")), os.Mkdir(other, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if err := os.Rename(other, other+"b"); err == nil {
					_ = os.Rename(other+"b", other)
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 20_000 {
		f, err := openInside(dir, "var/run", true)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}
