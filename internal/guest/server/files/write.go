package files

import (
	"crypto/rand"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// temporaryPrefix begins the names of incomplete files. They are hidden, and random, so that the code cannot prepare
// one.
const temporaryPrefix = ".fumehood-"

const defaultFileMode = 0o644

func (t *Tree) WriteFile(req *guest.WriteFile, c Call) (answer guest.Message, err error) {
	defer explain(&err, "write", req.Path)
	n, err := t.write(req, c)
	return &guest.Done{Size: n}, err
}

func (t *Tree) write(req *guest.WriteFile, c Call) (uint64, error) {
	p, err := t.place(req.Path)
	switch {
	case err != nil:
		return 0, err
	case p.folder:
		return 0, unix.ENOTDIR
	case req.Offset > math.MaxInt64 || req.Atomic && req.Offset > 0:
		return 0, unix.EINVAL
	}
	if req.Atomic {
		return t.replaceFile(p, req, c)
	}
	return t.writeInPlace(p, req, c)
}

// writeInPlace writes the file itself; of a link, its target in the sandbox.
func (t *Tree) writeInPlace(p place, req *guest.WriteFile, c Call) (uint64, error) {
	fd := -1
	if err := t.threads.do(func() (err error) {
		fd, err = t.openForWriting(p, req)
		return err
	}); err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := receiveContent(c, fd, int64(req.Offset))
	if err == nil && req.Truncate {
		err = setSize(fd, int64(req.Offset+n))
	}
	return n, err
}

// setSize gives a file a size, unless it has it: watchers would see a change.
func setSize(fd int, size int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size == size {
		return err
	}
	return unix.Ftruncate(fd, size)
}

func (t *Tree) openForWriting(p place, req *guest.WriteFile) (int, error) {
	dir, name, err := t.openParentToWrite(p, req.MakeParent)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	for range maxTries { // the code may make and remove the file meanwhile
		fd, err := t.open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|openAlways, defaultFileMode,
			0)
		if err == nil {
			if err = unix.Fchmod(fd, orMode(req.Mode, defaultFileMode)); err == nil { // despite the umask
				return fd, nil
			}
			unix.Close(fd)
			return -1, err
		}
		if err != unix.EEXIST || req.Exclusive {
			return -1, err
		}
		fd, err = t.openServed(dir, name, unix.O_WRONLY|openAlways, 0, 0)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			err = regular(&st)
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	return -1, unix.ENOENT // a dangling link
}

func (t *Tree) openParentToWrite(p place, make bool) (dir int, name string, err error) {
	if !make {
		return t.openParent(p)
	}
	parent, name, err := p.split()
	if err != nil {
		return -1, "", err
	}
	dir, err = t.makeFolders(unix.AT_FDCWD, parent, defaultFolderMode)
	return dir, name, err
}

// replaceFile writes a temporary file and renames it. A link is replaced, never written through.
func (t *Tree) replaceFile(p place, req *guest.WriteFile, c Call) (n uint64, err error) {
	var w *replacement
	if err := t.threads.do(func() (err error) {
		w, err = t.beginReplacement(p, req)
		return err
	}); err != nil {
		return 0, err
	}
	n, err = receiveContent(c, w.fd, 0)
	ended := t.threads.do(func() error {
		defer w.close()
		if err != nil {
			return err
		}
		return w.commit(req.Exclusive)
	})
	return n, ended
}

// replacement is a file being written under a temporary name.
type replacement struct {
	dir, fd         int
	name, temporary string
	named           bool
}

func (t *Tree) beginReplacement(p place, req *guest.WriteFile) (*replacement, error) {
	dir, name, err := t.openParentToWrite(p, req.MakeParent)
	if err != nil {
		return nil, err
	}
	w := &replacement{dir: dir, fd: -1, name: name, temporary: temporaryPrefix + rand.Text()}
	mode, err := replacementMode(dir, name, req)
	if err == nil {
		w.fd, err = t.open(dir, w.temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|openAlways, 0o600,
			0)
	}
	if err == nil {
		err = unix.Fchmod(w.fd, mode)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// replacementMode returns the new file's mode: the old file's, unless the host names one. It fails early if the rename
// could not succeed.
func replacementMode(dir int, name string, req *guest.WriteFile) (uint32, error) {
	var old unix.Stat_t
	switch err := unix.Fstatat(dir, name, &old, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return orMode(req.Mode, defaultFileMode), nil
	case err != nil:
		return 0, err
	case req.Exclusive:
		return 0, unix.EEXIST
	case old.Mode&unix.S_IFMT == unix.S_IFDIR:
		return 0, unix.EISDIR
	case old.Mode&unix.S_IFMT == unix.S_IFREG:
		return orMode(req.Mode, orMode(old.Mode, defaultFileMode)), nil
	}
	return orMode(req.Mode, defaultFileMode), nil
}

func (w *replacement) commit(exclusive bool) error {
	err := rename(w.dir, w.temporary, w.dir, w.name, !exclusive)
	w.named = err == nil
	return err
}

// close removes the temporary file unless it was renamed.
func (w *replacement) close() {
	if w.fd >= 0 {
		unix.Close(w.fd)
		if !w.named {
			unix.Unlinkat(w.dir, w.temporary, 0)
		}
	}
	unix.Close(w.dir)
}

// receiveContent writes the host's data to an open file, from an offset, until the host ends its side.
func receiveContent(c Call, fd int, offset int64) (n uint64, err error) {
	for {
		data, err := nextData(c)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if uint64(len(data)) > math.MaxInt64-uint64(offset)-n {
			return n, unix.EFBIG
		}
		if err := writeAll(fd, data, offset+int64(n)); err != nil {
			return n, err
		}
		n += uint64(len(data))
	}
}

// nextData receives the host's next piece of content, or io.EOF. The bytes are valid until the next call.
func nextData(c Call) ([]byte, error) {
	typ, body, err := c.Next()
	if err != nil {
		return nil, err
	}
	var m guest.Data
	if typ != guest.TypeData || guest.Parse(body, &m) != nil || len(m.Data) > guest.MaxData {
		return nil, ErrMalformed
	}
	return m.Data, nil
}

func writeAll(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, offset)
		if err != nil && err != unix.EINTR {
			return err
		}
		n = max(n, 0)
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}
