package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/internal/walk"
)

// treeCopy is a copy of a tree in progress.
type treeCopy struct {
	from, to string
	spend    func(bytes int64) error // is called before a file is copied
	own      int64                   // bytes of folders and of copied files
	copies   map[uint64]string       // of files that cannot have more names, by inode
}

// copyTree copies folders, and links everything else. It copies a file that has as many names as the file system
// allows. It returns the bytes on the disk of folders and such files. Nobody else changes either tree.
func copyTree(ctx context.Context, from, to string, spend func(bytes int64) error) (own int64, err error) {
	c := treeCopy{from: from, to: to, spend: spend, copies: map[uint64]string{}}
	err = walk.Dir(os.DirFS(from), ".", func(name string, e fs.DirEntry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !e.IsDir() {
			return c.link(name, e)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(to, name), 0o700); err != nil {
			return err
		}
		c.own += trees.SizeOnDisk(info.Size())
		return os.Chmod(filepath.Join(to, name), info.Mode()&(fs.ModePerm|fs.ModeSticky))
	})
	return c.own, err
}

// link links a file or a symbolic link.
func (c *treeCopy) link(name string, e fs.DirEntry) error {
	from, to := filepath.Join(c.from, name), filepath.Join(c.to, name)
	err := os.Link(from, to)
	if !errors.Is(err, unix.EMLINK) {
		return err
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	if earlier := c.copies[inode]; earlier != "" {
		if err := os.Link(earlier, to); !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	if err := c.spend(info.Size()); err != nil {
		return err
	}
	c.own += trees.SizeOnDisk(info.Size())
	c.copies[inode] = to
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		return errors.Join(err, os.Symlink(target, to))
	}
	return copyFile(from, to, info)
}

// copyFile copies a regular file with its permissions and its time.
func copyFile(from, to string, info fs.FileInfo) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}
