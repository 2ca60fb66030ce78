package hostfiles

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// Replace replaces the content of a file by one rename: readers get the old or the new content. A file that exists
// keeps its owner and mode, because a server's user may read it as a group. A new file gets mode. path has no links.
func Replace(path string, content []byte, mode os.FileMode) error {
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+"."+rand.Text())
	f, err := OpenResolved(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if old, statErr := os.Lstat(path); err == nil && statErr == nil {
		err = likeFile(f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}
