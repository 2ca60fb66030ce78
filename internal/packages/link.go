package packages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Show implements sandbox.Packager. It links the files of a layer into the folder; on another file system it copies
// them. Existing files of the layer stay, all others are removed. Each file is replaced atomically.
func (p *Packager) Show(layer sandbox.Layer, folder, owner string, record func() error) error {
	return p.link(layer, linkTo{folder: folder, owner: owner, record: record}, func(l linkedLayer) error {
		err := removeOthers(layer.Dir, folder)
		if err == nil {
			err = writeRecord(folder, linkRecord{Owner: owner, Layers: []linkedLayer{l}})
		}
		return err
	})
}

// Add implements sandbox.Packager.
func (p *Packager) Add(layer sandbox.Layer, folder, owner string, gone []string, record func() error) error {
	return p.link(layer, linkTo{folder: folder, owner: owner, keeps: true, record: record},
		func(linkedLayer) error { return removeListed(layer.Dir, folder, gone) })
}

// linkTo is a folder that gets the files of a layer.
type linkTo struct {
	folder, owner string
	keeps         bool         // its earlier layers
	record        func() error // called before the folder changes
}

// link links the files of a layer into a folder, and calls finish.
func (p *Packager) link(layer sandbox.Layer, to linkTo, finish func(linkedLayer) error) error {
	mixed, work := !p.Linked(to.folder), workOf(to.folder)
	l, err := prepare(layer.Dir, work)
	if err == nil {
		if err = p.reserve(to.folder, to.owner, l, mixed || to.keeps); err == nil {
			err = to.record()
		}
		if err != nil && !mixed {
			err = errors.Join(err, os.RemoveAll(work)) // the folder is unchanged
		}
	}
	if err == nil {
		err = linkFiles(layer.Dir, to.folder, work)
	}
	if err == nil {
		err = finish(l)
	}
	if err == nil {
		err = os.RemoveAll(work)
	}
	if err != nil && sandbox.KindOf(err) != sandbox.Quota {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "add packages to the sandbox", Err: err, Fix: "try again"}
	}
	return err
}

// Linked implements sandbox.Packager.
func (p *Packager) Linked(folder string) bool {
	_, err := os.Lstat(workOf(folder))
	return errors.Is(err, fs.ErrNotExist)
}

const workSuffix = ".new"

// workOf returns the folder where files are prepared for another folder. While it exists, the other may contain a
// mixture of layers.
func workOf(folder string) string { return folder + workSuffix }

// tempFile is a file in workOf.
const tempFile = "file"

// prepare creates work, and measures a layer.
func prepare(layer, work string) (linkedLayer, error) {
	if err := os.Mkdir(work, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return linkedLayer{}, err
	}
	temp := filepath.Join(work, tempFile)
	if err := os.RemoveAll(temp); err != nil { // a failed call may have left a link to a file of the cache
		return linkedLayer{}, err
	}
	l, file, err := measure(layer)
	if err != nil {
		return l, err
	}
	info, err := os.Stat(layer)
	if err != nil {
		return l, err
	}
	l.ID = fmt.Sprintf("%s %d", layer, info.ModTime().UnixNano())
	if file != "" && os.Link(file, temp) != nil { // files will be copied
		l.Own, l.Files = l.Own+l.Files, 0
	}
	return l, os.RemoveAll(temp)
}

// makeOpen creates a folder that every user can enter, regardless of the umask.
func makeOpen(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// linkFiles adds the files of from that to lacks. It prepares those that replace others in work.
func linkFiles(from, to, work string) error {
	temp := filepath.Join(work, tempFile)
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			err := makeOpen(at)
			if there, statErr := os.Lstat(at); errors.Is(err, fs.ErrExist) && statErr == nil {
				if err = nil; !there.IsDir() {
					err = errors.Join(os.Remove(at), makeOpen(at))
				}
			}
			return err
		}
		if err = os.Link(path, at); err == nil { // it is new, as most are
			return nil
		}
		if there, statErr := os.Lstat(at); statErr == nil {
			if own, err := d.Info(); err == nil && os.SameFile(own, there) {
				return nil
			}
			if there.IsDir() {
				if err := os.RemoveAll(at); err != nil {
					return err
				}
			}
		}
		if err := os.Link(path, temp); err != nil {
			if err := copyFile(path, temp); err != nil {
				return err
			}
		}
		return os.Rename(temp, at)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
}

// removeListed removes files of a folder that a layer does not have, and folders that are empty then. Code may have
// written the list: names that leave the folder are skipped.
func removeListed(layer, folder string, list []string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range list {
		if !filepath.IsLocal(name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(layer, name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for root.Remove(name) == nil && filepath.Dir(name) != "." {
			name = filepath.Dir(name)
		}
	}
	return nil
}

// removeOthers removes the files in to that are not in from.
func removeOthers(from, to string) error {
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(to, path)
		if err != nil || rel == "." {
			return err
		}
		if _, err := os.Lstat(filepath.Join(from, rel)); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
