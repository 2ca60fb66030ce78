package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/internal/walk"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Names of removals in a layer (OCI image specification, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacker unpacks the layers of one image into one tree.
type unpacker struct {
	root   *os.File // the tree
	limits Limits   // what is left
	room   int64    // bytes that are reserved and left
	// reserve reserves at least some bytes, and returns how many. nil needs no reservation.
	reserve func(bytes int64) (more int64, err error)

	seed   maphash.Seed
	added  map[uint64]bool // hashes of the paths that the current layer added: its removals do not concern them
	parent *os.File        // the folder of the last entry, opened for its path only
	at     string          // path of parent
	spend  func(entries int, bytes int64) error
}

func newUnpacker(dir string, limits Limits) (*unpacker, error) {
	root, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	free := func(int, int64) error { return nil }
	return &unpacker{root: root, limits: limits, seed: maphash.MakeSeed(), spend: free}, nil
}

// take accounts for bytes of a new entry, which may have none.
func (u *unpacker) take(bytes int64) error {
	bytes = trees.SizeOnDisk(bytes)
	if u.limits.Bytes -= bytes; u.limits.Bytes < 0 {
		return tooLarge("bytes")
	}
	if u.room -= bytes; u.room >= 0 || u.reserve == nil {
		return nil
	}
	more, err := u.reserve(-u.room)
	u.room += more
	return err
}

func (u *unpacker) Close() error {
	return errors.Join(u.leave(), u.root.Close())
}

// layer unpacks the tar archive of one layer over the tree.
func (u *unpacker) layer(r io.Reader) error {
	u.added = map[uint64]bool{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return u.leave()
		}
		if err != nil {
			return invalid("the archive of a layer is broken: %v", err)
		}
		if err := u.entry(h, archive); err != nil {
			var known *sandbox.Error
			if errors.As(err, &known) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				return err
			}
			return invalid("%.200q in a layer: %v", h.Name, err)
		}
	}
}

// entry applies one entry of a layer.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if u.limits.Entries--; u.limits.Entries < 0 {
		return tooLarge("entries")
	}
	if err := u.spend(1, max(h.Size, 0)); err != nil {
		return err
	}
	name := path.Clean("/" + h.Name)[1:]
	if len(h.Name) > maxPath || len(h.Linkname) > maxPath || strings.Count(name, "/") > maxDepth ||
		strings.Count(h.Linkname, "/") > maxDepth {
		return errors.New("the path is too long")
	}
	dir, base := path.Split(name)
	switch {
	case name == "" || h.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case base == opaque:
		return u.clear(path.Clean(dir))
	case strings.HasPrefix(base, whiteout+whiteout): // of aufs, not of this format
		return nil
	case strings.HasPrefix(base, whiteout):
		return u.remove(dir, strings.TrimPrefix(base, whiteout))
	}
	if err := u.enter(dir); err != nil {
		return err
	}
	u.added[u.hash(name)] = true
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(base, h)
	case tar.TypeReg:
		return u.file(base, h, content)
	case tar.TypeSymlink:
		if err := errors.Join(u.take(1), u.free(base)); err != nil {
			return err
		}
		return unix.Symlinkat(h.Linkname, u.fd(), base)
	case tar.TypeLink:
		return u.link(base, h.Linkname)
	}
	return nil // devices and pipes: a sandbox has its own
}

func (u *unpacker) hash(name string) uint64 { return maphash.String(u.seed, name) }

// linkEntries is how many entries a path with a link counts as work: the kernel follows 40 links of 256 folders each
// in 3 ms.
const linkEntries = 300

// resolve opens a folder of the tree for its path. Links lead nowhere else: the tree is their root.
func (u *unpacker) resolve(dir string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	f, err := openBelow(u.root, dir, flags, unix.RESOLVE_NO_SYMLINKS)
	if !errors.Is(err, unix.ELOOP) {
		return f, err
	}
	if u.limits.Links--; u.limits.Links < 0 {
		return nil, tooLarge("paths with links")
	}
	if err := u.spend(linkEntries, 0); err != nil {
		return nil, err
	}
	return openBelow(u.root, dir, flags, 0)
}

// isFolder reports whether a path of the tree is a folder.
func (u *unpacker) isFolder(dir string) bool {
	f, err := u.resolve(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// enter makes a folder the parent of the next entries, and creates it if it is missing.
func (u *unpacker) enter(dir string) error {
	dir = path.Clean("/" + dir)[1:]
	if u.parent != nil && u.at == dir {
		return nil
	}
	f, err := u.resolve(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "" {
		if err := u.enter(path.Dir("/" + dir)); err != nil {
			return err
		}
		if err := u.take(1); err != nil {
			return err
		}
		if err := unix.Mkdirat(u.fd(), path.Base(dir), 0o755); err != nil {
			return err // a link to nowhere is in the way
		}
		u.added[u.hash(dir)] = true
		if u.limits.Entries--; u.limits.Entries < 0 {
			return tooLarge("entries")
		}
		f, err = u.resolve(dir)
	}
	if err == nil {
		err = errors.Join(u.checkDepth(f), u.leave())
	}
	if err != nil {
		f.Close() // also if nil
		return err
	}
	u.parent, u.at = f, dir
	return nil
}

// checkDepth refuses a folder that is too deep in the tree, however links shorten the path to it.
func (u *unpacker) checkDepth(f *os.File) error {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err == nil && strings.Count(at, "/")-strings.Count(u.root.Name(), "/") > maxDepth ||
		errors.Is(err, unix.ENAMETOOLONG) {
		return errors.New("the path is too long")
	}
	return err
}

func (u *unpacker) leave() error {
	f := u.parent
	u.parent, u.at = nil, ""
	if f == nil {
		return nil
	}
	return f.Close()
}

func (u *unpacker) fd() int { return int(u.parent.Fd()) }

// folder creates a folder, or keeps the one of a layer below.
func (u *unpacker) folder(base string, h *tar.Header) error {
	var st unix.Stat_t
	err := unix.Fstatat(u.fd(), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = u.free(base)
		st.Mode = 0
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if st.Mode == 0 {
		if err := u.take(1); err != nil {
			return err
		}
		if err := unix.Mkdirat(u.fd(), base, 0o700); err != nil {
			return err
		}
	}
	// It is a folder, not a link: nobody else changes the tree. This user must be able to enter and remove it.
	return unix.Fchmodat(u.fd(), base, modeOf(h)|0o700, 0)
}

// file creates a regular file.
func (u *unpacker) file(base string, h *tar.Header, content io.Reader) (err error) {
	if err := u.take(h.Size); err != nil {
		return err
	}
	if err := u.free(base); err != nil {
		return err
	}
	fd, err := unix.Openat(u.fd(), base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	if err := f.Chmod(fs.FileMode(modeOf(h))); err != nil {
		return err
	}
	stamp := unix.NsecToTimeval(within(h.ModTime).UnixNano())
	return unix.Futimes(fd, []unix.Timeval{stamp, stamp})
}

// within returns a time that file systems can store.
func within(t time.Time) time.Time {
	if t.Year() < 1970 || t.Year() > 2100 {
		return time.Unix(0, 0)
	}
	return t
}

// modeOf returns the permission bits of a file in the tree, and the sticky bit of a folder. The owner in the image is
// another user than that of the code, unless the image itself gives files to a user: then everybody has the rights of
// the owner.
func modeOf(h *tar.Header) uint32 {
	mode := uint32(h.Mode) & 0o777
	if h.Typeflag == tar.TypeDir {
		mode |= uint32(h.Mode) & unix.S_ISVTX
	}
	if h.Uid != 0 {
		mode |= mode >> 6 & 5
	}
	return mode
}

// link creates a hard link to a file or a symbolic link of the tree.
func (u *unpacker) link(base, target string) error {
	target = path.Clean("/" + target)[1:]
	from, err := u.resolve(path.Dir("/" + target)[1:])
	if err != nil {
		return err
	}
	defer from.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(from.Fd()), path.Base(target), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return errors.New("a hard link to something other than a file")
	}
	var here unix.Stat_t
	if err := unix.Fstatat(u.fd(), base, &here, unix.AT_SYMLINK_NOFOLLOW); err == nil && here.Ino == st.Ino {
		return nil // it is this file already
	}
	if err := errors.Join(u.take(1), u.free(base)); err != nil {
		return err
	}
	return unix.Linkat(int(from.Fd()), path.Base(target), u.fd(), base, 0)
}

// free removes what has a name in the parent folder.
func (u *unpacker) free(base string) error {
	err := unix.Unlinkat(u.fd(), base, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = u.removeFolder(base)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeFolder removes a folder of the parent with its content.
func (u *unpacker) removeFolder(base string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", u.fd()))
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(base), root.Close())
}

// remove carries out a removal: it removes a name that an earlier layer created.
func (u *unpacker) remove(dir, base string) error {
	if base == "" || base == "." || base == ".." {
		return errors.New("a removal without a name")
	}
	if f, err := u.resolve(dir); err != nil {
		return nil // nothing to remove
	} else if err := f.Close(); err != nil {
		return err
	}
	if err := u.enter(dir); err != nil {
		return err
	}
	if u.added[u.hash(path.Join(u.at, base))] {
		return nil
	}
	return u.free(base)
}

// clear removes the entries of a folder that earlier layers created.
func (u *unpacker) clear(dir string) error {
	if err := u.leave(); err != nil {
		return err
	}
	f, err := u.resolve(dir)
	if err != nil {
		return nil // nothing to remove
	}
	defer f.Close()
	open, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	defer open.Close()
	return u.clearBelow(open, path.Clean("/" + dir)[1:])
}

// clearBelow removes the entries below top that earlier layers added. at is the path of top in the tree. A folder may
// omit entries while others are removed, so clearBelow walks until it removes none.
func (u *unpacker) clearBelow(top *os.Root, at string) error {
	for again := true; again; {
		again = false
		err := walk.Dir(top.FS(), ".", func(name string, e fs.DirEntry) error {
			if u.limits.Entries--; u.limits.Entries < 0 { // a layer can clear a folder again and again
				return tooLarge("entries")
			}
			if u.added[u.hash(path.Join(at, name))] {
				return nil
			}
			again = true
			err := top.RemoveAll(name)
			if err == nil && e.IsDir() {
				err = fs.SkipDir
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
