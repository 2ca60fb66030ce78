package trees

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
)

// Draft is an unpublished tree. Its creator publishes or discards it.
type Draft struct {
	store *Store
	dir   string
	lock  *os.File
}

// NewDraft creates an empty draft.
func (s *Store) NewDraft() (d *Draft, err error) {
	done, err := s.lockWork()
	if err != nil {
		return nil, err
	}
	defer done()
	d = &Draft{store: s}
	if d.dir, err = os.MkdirTemp(s.path(workDir), "draft-"); err != nil {
		return nil, err
	}
	if d.lock, err = os.OpenFile(filepath.Join(d.dir, usedFile), os.O_CREATE|os.O_RDWR, 0o644); err == nil {
		err = filelock.Try(d.lock)
	}
	// Other users can enter the tree, regardless of the umask: the users of sandboxes read it.
	if err == nil {
		err = errors.Join(os.Chmod(d.dir, 0o755), os.Mkdir(d.Files(), 0o755), os.Chmod(d.Files(), 0o755))
	}
	if err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	return d, nil
}

// Files returns the folder to fill.
func (d *Draft) Files() string { return filepath.Join(d.dir, filesDir) }

// File returns the path of a temporary file beside the content. Publish removes it.
func (d *Draft) File(name string) string { return filepath.Join(d.dir, "temporary-"+name) }

// Publish makes the draft the tree of a digest, with a record. If the store has that tree, it discards the draft; a
// damaged one is replaced.
func (d *Draft) Publish(digest string, record any) error {
	if !IsDigest(digest) {
		return errors.Join(errors.New("not a digest: "+digest), d.Discard())
	}
	old, published, err := d.publish(digest, record)
	if !published { // without the lock, as removing may take a while
		err = errors.Join(err, d.Discard())
	}
	if old != "" {
		_ = RemoveAll(old) // the next sweep tries again
	}
	return err
}

// publish publishes the draft, and reports whether it has become the tree. It returns the folder of a damaged tree, if
// there was one, which the caller removes.
func (d *Draft) publish(digest string, record any) (old string, published bool, err error) {
	if err := d.finish(record); err != nil {
		return "", false, err
	}
	done, err := d.store.lockWork() // a sweep would remove an unlocked draft
	if err != nil {
		return "", false, err
	}
	defer done()
	if err = filelock.Close(d.lock); err != nil { // Windows renames no folder with open files
		return "", false, err
	}
	if err = os.Rename(d.dir, d.store.path(treesDir, digest)); err == nil || d.store.Whole(digest) {
		return "", err == nil, nil
	}
	return d.replace(digest)
}

// replace replaces a damaged tree. One in use gets the record only.
func (d *Draft) replace(digest string) (old string, published bool, err error) {
	old, err = d.store.Take(digest)
	if err != nil {
		return "", false, err
	}
	tree := d.store.path(treesDir, digest)
	if old == "" && d.store.Has(digest) {
		return "", false, os.Rename(filepath.Join(d.dir, recordFile), filepath.Join(tree, recordFile))
	}
	err = os.Rename(d.dir, tree)
	return old, err == nil, err
}

// finish removes the temporary files, and writes the record.
func (d *Draft) finish(record any) error {
	temporary, err := filepath.Glob(d.File("*"))
	for _, name := range temporary {
		err = errors.Join(err, os.Remove(name))
	}
	text, marshalErr := json.Marshal(record)
	if err = errors.Join(err, marshalErr); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, recordFile), text, 0o644)
}

// Discard removes the draft.
func (d *Draft) Discard() error {
	_ = d.lock.Close() // again if Publish failed
	return RemoveAll(d.dir)
}

// RemoveAll removes a tree whose folders may not be writable by this user.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Nobody else changes the tree, so a path that is a folder remains one.
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
