package files

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// notRegular is the reason why an entry has no content.
const notRegular = "not a regular file"

func (t *Tree) Pack(req *guest.Pack, c Call) (answer guest.Message, err error) {
	defer explain(&err, "pack", req.Base)
	more, err := t.pack(req, c)
	return &guest.Done{More: more}, err
}

// pack reports whether there are omitted entries that it did not name.
//
// Content follows an entry that is a regular file with neither Err nor Omitted, and is exactly Size bytes. If the file
// turns out shorter, or a read fails, zeros fill the rest, and a second entry of the same path follows with an Err.
func (t *Tree) pack(req *guest.Pack, c Call) (more bool, err error) {
	p, err := t.place(req.Base)
	if err != nil {
		return false, err
	}
	k := &packer{tree: t, c: c, maxBytes: req.MaxBytes, maxFiles: req.MaxFiles}
	if len(req.Paths) == 0 {
		w, err := t.walkFolder(p, "", 0)
		if err != nil {
			return false, err
		}
		err = k.all(w)
		return k.more, err
	}
	base := -1
	if err := t.threads.do(func() (err error) {
		base, err = t.openServed(unix.AT_FDCWD, p.path, openPath|unix.O_DIRECTORY, 0, 0)
		return err
	}); err != nil {
		return false, err
	}
	defer unix.Close(base)
	for _, path := range req.Paths {
		if err := checkName(path); err != nil {
			return false, fileError("pack", path, err)
		}
		if err := k.subtree(base, path); err != nil || k.more {
			return k.more, err
		}
	}
	return k.more, nil
}

// packer sends entries and counts what it sends.
type packer struct {
	tree     *Tree
	c        Call
	maxBytes uint64 // 0 is unlimited
	maxFiles uint64
	bytes    uint64
	files    uint64
	omitted  uint64 // entries whose content was left out
	more     bool
}

// packed is an entry ready to be sent; fd is its content, or -1.
type packed struct {
	info guest.FileInfo
	fd   int
}

func (e packed) close() {
	if e.fd >= 0 {
		unix.Close(e.fd)
	}
}

// subtree sends one path and everything below it.
func (k *packer) subtree(base int, path string) error {
	var e packed
	var w *walk
	if err := k.tree.threads.do(func() (err error) {
		e, w, err = k.look(base, path)
		return err
	}); err != nil {
		return err
	}
	if err := k.send(e); err != nil || w == nil {
		if w != nil {
			w.close()
		}
		return err
	}
	return k.all(w)
}

// look prepares the entry at a path, and the walk of a folder. A missing path becomes an entry with an Err.
func (k *packer) look(base int, path string) (packed, *walk, error) {
	dir, name := base, path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, err := k.tree.openServed(base, path[:i], openPath|unix.O_DIRECTORY, 0, within)
		if err != nil {
			return packed{guest.FileInfo{Path: path, Err: why(err)}, -1}, nil, nil
		}
		defer unix.Close(parent)
		dir, name = parent, path[i+1:]
	}
	info, _ := describe(dir, name, path)
	if info.Type != guest.FileDir {
		return k.prepare(dir, name, info), nil, nil
	}
	fd, err := k.tree.openServed(dir, name, openFolder, 0, within)
	if err != nil {
		info.Err = why(err)
		return k.prepare(dir, name, info), nil, nil
	}
	w, err := k.tree.newWalk(fd, path+"/", 0)
	return k.prepare(dir, name, info), w, err
}

// packBatch is how many entries are opened before they are sent: a switch to another thread costs as much as a small
// file.
const packBatch = 8

// all sends the entries of a walk, and closes it.
func (k *packer) all(w *walk) error {
	defer w.close()
	batch := make([]packed, 0, packBatch)
	for {
		batch = batch[:0]
		err := k.tree.threads.do(func() error {
			for len(batch) < packBatch {
				info, name, ok, err := w.step()
				if err != nil || !ok {
					return err
				}
				batch = append(batch, k.prepare(w.fd(), name, info))
			}
			return nil
		})
		for _, e := range batch {
			if err == nil {
				err = k.send(e)
			} else {
				e.close()
			}
		}
		if err != nil || len(batch) == 0 || k.more {
			return err
		}
	}
}

// prepare decides whether an entry's content follows, and opens it.
func (k *packer) prepare(dir int, name string, info guest.FileInfo) packed {
	e := packed{info, -1}
	if info.Err != "" {
		return e
	}
	if k.files++; k.maxFiles > 0 && k.files > k.maxFiles {
		e.info.Omitted = "over the limit of " + strconv.FormatUint(k.maxFiles, 10) + " files"
		return e
	}
	switch info.Type {
	case guest.FileDir, guest.FileSymlink:
		return e
	case guest.FileRegular:
	default:
		e.info.Omitted = notRegular
		return e
	}
	if e.info.Omitted = k.over(info.Size); e.info.Omitted != "" {
		return e
	}
	fd, st, err := k.tree.openRegular(dir, name, unix.O_NOFOLLOW, within)
	if err != nil {
		e.info.Err = why(err)
		return e
	}
	e.info = fileInfo(info.Path, &st) // the file may have been replaced
	if e.info.Omitted = k.over(e.info.Size); e.info.Omitted != "" {
		unix.Close(fd)
		return e
	}
	k.bytes += e.info.Size
	e.fd = fd
	return e
}

// over explains why so many more bytes exceed a limit, or returns "".
func (k *packer) over(size uint64) string {
	limit := k.maxBytes
	if limit == 0 {
		limit = math.MaxInt64
	}
	if size <= limit-k.bytes {
		return ""
	}
	return "over the limit of " + strconv.FormatUint(limit, 10) + " bytes in all"
}

// send sends an entry and its content, and closes the content.
func (k *packer) send(e packed) error {
	defer e.close()
	if e.info.Err != "" || e.info.Omitted != "" {
		if k.omitted++; k.omitted > guest.DefaultListLimit {
			k.more = true // enough left-out entries are named
			return nil
		}
	}
	if err := k.c.Send(&e.info); err != nil || e.fd < 0 {
		return err
	}
	sent, err := sendContent(k.c, e.fd, 0, e.info.Size)
	if err == ErrCanceled || sent == e.info.Size {
		return err
	}
	reason := "it shrank while it was read"
	if err != nil {
		reason = why(err)
	}
	if err := sendZeros(k.c, e.info.Size-sent); err != nil {
		return err
	}
	k.omitted++
	missing := strconv.FormatUint(e.info.Size-sent, 10)
	return k.c.Send(&guest.FileInfo{Path: e.info.Path, Err: reason + "; its last " + missing +
		" bytes are replaced by zeros"})
}

var zeros [4 << 10]byte

func sendZeros(c Call, n uint64) error {
	for n > 0 {
		k := min(n, uint64(len(zeros)))
		if err := c.SendData(zeros[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
