package files

import (
	"io"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Unpack serves Unpack. It makes entries as they come, removes a failing one and keeps earlier ones. Owners keep all
// permissions on folders, so that later entries fit into them.
func (t *Tree) Unpack(req *guest.Unpack, c Call) (answer guest.Message, err error) {
	defer explain(&err, "unpack", req.Base)
	p, err := t.place(req.Base)
	if err != nil {
		return nil, err
	}
	u := &unpacker{tree: t, maxBytes: orMost(req.MaxBytes), maxFiles: orMost(req.MaxFiles), base: -1, dir: -1}
	defer u.close()
	if err := t.threads.do(func() (err error) {
		u.base, err = t.openServed(unix.AT_FDCWD, p.path, openPath|unix.O_DIRECTORY, 0, 0)
		return err
	}); err != nil {
		return nil, err
	}
	for {
		typ, body, err := c.Next()
		switch {
		case err == io.EOF:
			return &u.made, u.complete()
		case err != nil:
			return nil, err
		}
		switch typ {
		case guest.TypeFileInfo:
			err = u.entry(body)
		case guest.TypeData:
			err = u.content(body)
		default:
			err = ErrMalformed
		}
		if err != nil {
			return nil, err
		}
	}
}

// orMost replaces a limit of 0, which means unlimited, by the largest number.
func orMost(bound uint64) uint64 {
	if bound == 0 {
		return math.MaxInt64
	}
	return bound
}

type unpacker struct {
	tree     *Tree
	maxBytes uint64
	maxFiles uint64
	made     guest.Unpacked
	base     int
	dir      int    // the last entry's folder, kept open for the next entry; or -1
	dirPath  string // its path
	file     *incoming
}

// incoming is a regular file whose content is coming.
type incoming struct {
	dir, fd int
	name    string // in dir
	info    guest.FileInfo
	written uint64
}

func (u *unpacker) close() {
	if f := u.file; f != nil {
		u.tree.threads.do(func() error { return unix.Unlinkat(f.dir, f.name, 0) })
		unix.Close(f.fd)
	}
	if u.dir >= 0 {
		unix.Close(u.dir)
	}
	if u.base >= 0 {
		unix.Close(u.base)
	}
}

// entry completes the previous file, and begins the next entry.
func (u *unpacker) entry(body []byte) error {
	var info guest.FileInfo
	if guest.Parse(body, &info) != nil {
		return ErrMalformed
	}
	if err := u.whole(); err != nil {
		return err
	}
	if err := u.check(&info); err != nil {
		u.complete() // earlier entries stay
		return fileError("unpack", info.Path, err)
	}
	if err := u.tree.threads.do(func() error { // one thread switch for both: most files are small
		if err := u.settle(); err != nil {
			return err
		}
		return fileError("unpack", info.Path, u.begin(&info))
	}); err != nil {
		return err
	}
	u.made.Files++
	return nil
}

// check refuses forbidden entries before anything is made.
func (u *unpacker) check(info *guest.FileInfo) error {
	if err := checkName(info.Path); err != nil {
		return err
	}
	if u.made.Files >= u.maxFiles {
		return overLimit(info.Path, u.maxFiles, "files")
	}
	switch info.Type {
	case guest.FileDir:
	case guest.FileRegular:
		if info.Size > u.maxBytes-u.made.Bytes {
			return overLimit(info.Path, u.maxBytes, "bytes in all")
		}
	case guest.FileSymlink:
		if info.Target == "" || len(info.Target) >= guest.MaxPath || strings.IndexByte(info.Target, 0) >= 0 {
			return errTarget
		}
	default:
		return errKind
	}
	return nil
}

func overLimit(path string, limit uint64, of string) error {
	return &guest.Failed{Kind: sandbox.TooLarge, Op: "unpack",
		Msg: show(path) + " is over the limit of " + strconv.FormatUint(limit, 10) + " " + of}
}

// begin makes a folder or a link, or opens a file for its content.
func (u *unpacker) begin(info *guest.FileInfo) error {
	if info.Type == guest.FileDir {
		fd, err := u.tree.makeFolders(u.base, info.Path, orMode(info.Mode, defaultFolderMode)|ownerBits)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	dir, name, err := u.folder(info.Path)
	if err != nil {
		return err
	}
	if info.Type == guest.FileSymlink {
		return replacing(dir, name, func() error { return unix.Symlinkat(info.Target, dir, name) })
	}
	fd := -1
	if err := replacing(dir, name, func() (err error) {
		fd, err = u.tree.open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|openAlways, 0o600,
			within)
		return err
	}); err != nil {
		return err
	}
	u.file = &incoming{dir: dir, fd: fd, name: name, info: *info}
	return nil
}

// folder opens the folder that contains path's last name, and makes it if missing. It follows no link.
func (u *unpacker) folder(path string) (dir int, name string, err error) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return u.base, path, nil
	}
	if u.dir >= 0 && u.dirPath == path[:i] {
		return u.dir, path[i+1:], nil
	}
	dir, err = u.tree.makeFolders(u.base, path[:i], defaultFolderMode)
	if err != nil {
		return -1, "", err
	}
	if u.dir >= 0 {
		unix.Close(u.dir)
	}
	u.dir, u.dirPath = dir, path[:i]
	return dir, path[i+1:], nil
}

// replacing unlinks name and then makes a file there. It never writes through a symbolic or hard link. A folder stays,
// and is an error.
func replacing(dir int, name string, mk func() error) error {
	for range maxTries {
		if err := mk(); err != unix.EEXIST {
			return err
		}
		if err := unix.Unlinkat(dir, name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return unix.EEXIST
}

// content writes a piece of the current file.
func (u *unpacker) content(body []byte) error {
	var m guest.Data
	f := u.file
	if guest.Parse(body, &m) != nil || len(m.Data) > guest.MaxData || f == nil ||
		uint64(len(m.Data)) > f.info.Size-f.written {
		return ErrMalformed
	}
	if err := writeAll(f.fd, m.Data, int64(f.written)); err != nil {
		return fileError("unpack", f.info.Path, err)
	}
	f.written += uint64(len(m.Data))
	u.made.Bytes += uint64(len(m.Data))
	return nil
}

func (u *unpacker) complete() error {
	if err := u.whole(); err != nil || u.file == nil {
		return err
	}
	return u.tree.threads.do(u.settle)
}

func (u *unpacker) whole() error {
	if u.file != nil && u.file.written < u.file.info.Size {
		return ErrMalformed
	}
	return nil
}

// settle sets the file's mode and time and closes it.
func (u *unpacker) settle() error {
	f := u.file
	if f == nil {
		return nil
	}
	if err := unix.Fchmod(f.fd, orMode(f.info.Mode, defaultFileMode)); err != nil {
		return fileError("unpack", f.info.Path, err)
	}
	if f.info.MTime != 0 {
		// The mode is set by descriptor; the time is set by name, and lost if the code has moved the file.
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(f.info.MTime)}
		unix.UtimesNanoAt(f.dir, f.name, times, unix.AT_SYMLINK_NOFOLLOW)
	}
	unix.Close(f.fd)
	u.file = nil
	return nil
}
