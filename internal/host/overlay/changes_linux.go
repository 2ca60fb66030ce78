package overlay

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/walk"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Names of removals in a layer (OCI image specification, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// maxLinkNames is the most bytes of the first names of files that have several.
const maxLinkNames = 16 << 20

// changes writes one layer.
type changes struct {
	*Root
	upper *os.Root
	out   *tar.Writer
	links map[uint64]string // the first name of each file that has several, by inode
	names int               // bytes of these names
}

// Changes writes the changes to the root as an uncompressed layer. No process may use the root any more: its files are
// hostile, but then they no longer change. Devices, pipes, sockets, extended attributes and set-id bits are left out.
// So are files and folders whose names begin with .wh., which stand for removals in a layer, with all that is below: a
// reader bounds what is written, and nothing else would bound how deep they go.
func (r *Root) Changes(ctx context.Context, w io.Writer) error {
	upper, err := r.open()
	if err != nil {
		return err
	}
	defer upper.Close()
	c := &changes{Root: r, upper: upper, out: tar.NewWriter(w), links: map[uint64]string{}}
	err = walk.Dir(upper.FS(), ".", func(name string, e fs.DirEntry) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !slices.Contains(r.own, name) && !strings.HasPrefix(path.Base(name), whiteout):
			return c.add(name, e)
		case e.IsDir():
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	return c.out.Close()
}

func (c *changes) add(name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX,
		Uid: c.id(st.Uid), Gid: c.id(st.Gid)}
	switch info.Mode().Type() {
	case fs.ModeDevice | fs.ModeCharDevice:
		if st.Rdev == 0 { // how an overlay records a removal
			dir, base := path.Split(name)
			return c.out.WriteHeader(&tar.Header{Name: dir + whiteout + base, Typeflag: tar.TypeReg})
		}
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if info.Mode()&fs.ModeSticky != 0 {
			h.Mode |= unix.S_ISVTX
		}
		if err := c.out.WriteHeader(h); err != nil {
			return err
		}
		if hides, err := c.opaque(name); err != nil || !hides {
			return err
		}
		return c.out.WriteHeader(&tar.Header{Name: name + "/" + opaque, Typeflag: tar.TypeReg})
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = c.upper.Readlink(name); err != nil {
			return err
		}
		return c.out.WriteHeader(h)
	case 0:
		return c.file(name, h, info.Size(), st)
	}
	return nil
}

// id returns an id inside the sandbox; a foreign one is nobody's.
func (c *changes) id(host uint32) int {
	const nobody = 65534
	if host < c.first || host-c.first > nobody+1 {
		return nobody
	}
	return int(host - c.first)
}

// file writes a regular file, or a link to its first name.
func (c *changes) file(name string, h *tar.Header, size int64, st *syscall.Stat_t) error {
	if st.Nlink > 1 {
		if first := c.links[st.Ino]; first != "" {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return c.out.WriteHeader(h)
		}
		if c.names += len(name); c.names > maxLinkNames {
			return &sandbox.Error{Kind: sandbox.TooLarge, Op: "changes", Msg: "too many files have several names"}
		}
		c.links[st.Ino] = name
	}
	f, err := c.upper.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := c.out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(c.out, f, size)
	return err
}

// opaque reports whether a folder hides that of the layers below.
func (c *changes) opaque(name string) (bool, error) {
	f, err := c.upper.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var value [1]byte
	n, err := unix.Fgetxattr(int(f.Fd()), "trusted.overlay.opaque", value[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return err == nil && n == 1 && value[0] == 'y', err
}
