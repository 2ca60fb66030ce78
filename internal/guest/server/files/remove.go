package files

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// removeBatch is how many entries are removed between two checks for cancellation.
const removeBatch = 256

func (t *Tree) Remove(req *guest.Remove, c Call) (answer guest.Message, err error) {
	defer explain(&err, "remove", req.Path)
	return &guest.Done{}, t.remove(req, c)
}

func (t *Tree) remove(req *guest.Remove, c Call) error {
	p, err := t.place(req.Path)
	if err != nil {
		return err
	}
	if req.Contents {
		return t.removeBelow(c, func() (int, error) {
			return t.openServed(unix.AT_FDCWD, p.path, openFolder&^unix.O_NOFOLLOW, 0, 0)
		})
	}
	dir, name := -1, ""
	err = t.threads.do(func() (err error) {
		if dir, name, err = t.openParent(p); err != nil {
			return err
		}
		return removeOne(dir, name, p.folder)
	})
	if dir < 0 {
		return err
	}
	defer unix.Close(dir)
	for range maxTries { // the code may keep filling the folder
		if err != unix.ENOTEMPTY && err != unix.EEXIST || !req.Recursive {
			return err
		}
		if err = t.removeBelow(c, func() (int, error) { return openToEmpty(t, dir, name) }); err != nil {
			return err
		}
		err = t.threads.do(func() error { return removeOne(dir, name, true) })
	}
	return err
}

// removeOne removes a file, a link or an empty folder.
func removeOne(dir int, name string, folder bool) error {
	if !folder {
		err := unix.Unlinkat(dir, name, 0)
		if err != unix.EISDIR && err != unix.EPERM { // POSIX returns EPERM for a folder
			return err
		}
		if rm := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); rm != unix.ENOTDIR {
			return rm
		}
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// openToEmpty opens a folder that is to be removed, and gives its owner the necessary permissions. Mount points are not
// entered: their content does not belong to the folder.
func openToEmpty(t *Tree, dir int, name string) (int, error) {
	const resolve = within | unix.RESOLVE_NO_XDEV
	fd, err := t.openServed(dir, name, openFolder, 0, resolve)
	if err == unix.EACCES && allow(dir, name) == nil {
		fd, err = t.openServed(dir, name, openFolder, 0, resolve)
	}
	if err == unix.EXDEV {
		return -1, errMount
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&ownerBits != ownerBits {
		unix.Fchmod(fd, st.Mode&permissions|ownerBits) // on failure, the removal fails too
	}
	return fd, nil
}

// allow gives the owner all permissions on a folder that cannot be opened otherwise.
func allow(dir int, name string) error {
	// fchmodat2(2), Linux 6.6, does not follow a link. Without it the code may win a race and put one here; but this
	// thread has only the code's rights, so the code could change the target by itself.
	if err := unix.Fchmodat(dir, name, ownerBits, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.EACCES
	}
	return unix.Fchmodat(dir, name, ownerBits, 0)
}

// removal empties a folder, however deep and full, with bounded memory and few descriptors.
type removal struct {
	tree    *Tree
	descent descent
	reader  folderReader
	dev     uint64
	done    bool
}

// removeBelow removes everything in the folder that open opens.
func (t *Tree) removeBelow(c Call, open func() (int, error)) error {
	r := &removal{tree: t}
	defer r.descent.close()
	if err := t.threads.do(func() error {
		fd, err := open()
		if err != nil {
			return err
		}
		if err := r.descent.push(fd, ""); err != nil {
			return err
		}
		r.dev = r.descent.levels[0].dev
		return nil
	}); err != nil {
		return err
	}
	for !r.done {
		if err := c.Wanted(); err != nil {
			return err
		}
		if err := t.threads.do(r.step); err != nil {
			return err
		}
	}
	return nil
}

// step removes a batch of the current folder's entries, then enters a folder that is not empty, or goes back up.
func (r *removal) step() error {
	fd := r.descent.fd()
	full, left := "", removeBatch
	var failed error
	err := r.reader.each(fd, func(name []byte) bool {
		entry := string(name)
		switch err := removeOne(fd, entry, false); err {
		case nil, unix.ENOENT:
		case unix.ENOTEMPTY, unix.EEXIST:
			full = entry
			return false
		default:
			failed = fileError("remove", entry, err)
			return false
		}
		left--
		return left > 0
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case full != "":
		return r.descend(full)
	case left < removeBatch: // a file system may skip entries while others are removed: read again
		return nil
	case len(r.descent.levels) == 1:
		r.done = true
		return nil
	}
	return r.ascend()
}

func (r *removal) descend(name string) error {
	fd, err := openToEmpty(r.tree, r.descent.fd(), name)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return nil // it has been replaced: read again
	default:
		return fileError("remove", name, err)
	}
	if err := r.descent.push(fd, name); err != nil {
		return err
	}
	if r.descent.levels[len(r.descent.levels)-1].dev != r.dev { // without openat2 the kernel does not check
		return fileError("remove", name, errMount)
	}
	return nil
}

func (r *removal) ascend() error {
	name := r.descent.levels[len(r.descent.levels)-1].name
	if err := r.descent.pop(); err != nil {
		return err
	}
	switch err := unix.Unlinkat(r.descent.fd(), name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR: // the next step sees what the code has put here
		return nil
	default:
		return fileError("remove", name, err)
	}
}
