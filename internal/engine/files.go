package engine

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Paths of files in a living sandbox are absolute, or relative to the workspace. Everything is done in the sandbox, by
// its guest, with the rights of the code. Errors: NotFound, Exists, Invalid, TooLarge where the disk is full.

// FileBuffer is the most bytes of a file or a listing that are held for a slow reader.
const FileBuffer = guest.MaxUnread

// Bounds of one listing.
const (
	MaxFileList  = 10_000  // entries
	maxFileNames = 4 << 20 // bytes of their paths and targets, which the code chooses
)

// errNamesFull ends a listing at maxFileNames.
var errNamesFull = errors.New("the names are long")

var fileTypes = map[guest.FileType]sandbox.FileType{
	guest.FileRegular: sandbox.TypeFile, guest.FileDir: sandbox.TypeFolder,
	guest.FileSymlink: sandbox.TypeSymlink, guest.FileDevice: sandbox.TypeDevice, guest.FilePipe: sandbox.TypePipe,
	guest.FileSocket: sandbox.TypeSocket}

func fileInfo(f guest.FileInfo) sandbox.FileInfo {
	return sandbox.FileInfo{Path: f.Path, Type: fileTypes[f.Type], Mode: f.Mode & 0o7777, UID: f.UID, GID: f.GID,
		Size:     int64(min(f.Size, 1<<62)),
		Modified: time.Unix(0, f.MTime), Target: f.Target, Err: f.Err}
}

// files calls the guest for a file or folder, which is given relative to the workspace or absolute. f gets its absolute
// path, and must be safe to repeat.
func (s *Sandbox) files(ctx context.Context, file string, f func(c *client.Client, full string) error) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	full, err := plan.FilePath(file)
	if err != nil {
		return err
	}
	return fileError(s.call(ctx, func(c *client.Client) error { return f(c, full) }))
}

// Stat describes one file; of a symbolic link, its target.
func (s *Sandbox) Stat(ctx context.Context, file string) (sandbox.FileInfo, error) {
	return s.describeFile(ctx, file, true)
}

// StatLink describes one file; of a symbolic link, the link itself.
func (s *Sandbox) StatLink(ctx context.Context, file string) (sandbox.FileInfo, error) {
	return s.describeFile(ctx, file, false)
}

func (s *Sandbox) describeFile(ctx context.Context, file string, follow bool) (info sandbox.FileInfo, err error) {
	err = s.files(ctx, file, func(c *client.Client, full string) error {
		f, err := c.Stat(ctx, guest.Stat{Path: full, Follow: follow})
		info = fileInfo(f)
		return err
	})
	return info, err
}

// ReadFile copies a regular file to w, from an offset; a length of 0 is to its end. It returns the state of the file
// when it was opened.
func (s *Sandbox) ReadFile(ctx context.Context, file string, offset, length int64, w io.Writer) (
	info sandbox.FileInfo, err error) {
	if offset < 0 || length < 0 {
		return info, sandbox.Invalidf("range", "must not be negative")
	}
	begun := false
	out := writerFunc(func(p []byte) (int, error) { begun = true; return w.Write(p) })
	err = s.files(ctx, file, func(c *client.Client, full string) error {
		if begun {
			return errCut
		}
		f, err := c.ReadFile(ctx, guest.ReadFile{Path: full, Offset: uint64(offset), Length: uint64(length)}, out)
		info = fileInfo(f)
		return err
	})
	return info, err
}

// errCut ends the transfer of a file whose connection broke: the file may have changed since, or its source cannot be
// read again.
var errCut = &sandbox.Error{Kind: sandbox.Unavailable, Op: "file",
	Msg: "the connection to the sandbox broke during the transfer", Fix: "try again"}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// WriteFile writes a regular file from r. A reader of the file sees the old content or the new one, never a mixture.
// The folders above it are made. A mode of 0 is 0644. A connection that breaks is made anew if r is an io.Seeker.
func (s *Sandbox) WriteFile(ctx context.Context, file string, mode uint32, r io.Reader) error {
	if mode&^0o777 != 0 {
		return sandbox.Invalidf("mode", "%#o has more than permission bits", mode)
	}
	return s.writeFile(ctx, file, guest.WriteFile{Mode: mode, Atomic: true}, r)
}

// OverwriteFile is WriteFile in place: an existing file keeps its mode, a symbolic link leads to the file that is
// written, and a reader may see a mixture.
func (s *Sandbox) OverwriteFile(ctx context.Context, file string, r io.Reader) error {
	return s.writeFile(ctx, file, guest.WriteFile{Truncate: true}, r)
}

func (s *Sandbox) writeFile(ctx context.Context, file string, m guest.WriteFile, r io.Reader) error {
	var start int64
	source, again := r.(io.Seeker)
	if again {
		var err error
		start, err = source.Seek(0, io.SeekCurrent)
		again = err == nil
	}
	begun := false
	return s.files(ctx, file, func(c *client.Client, full string) error {
		if begun {
			if !again {
				return errCut
			}
			if _, err := source.Seek(start, io.SeekStart); err != nil {
				return err
			}
		}
		begun = true
		m.Path, m.MakeParent = full, true
		return c.WriteFile(ctx, m, r)
	})
}

// ListFiles lists a folder to a depth of at least 1, with paths relative to it. more reports whether there are others.
func (s *Sandbox) ListFiles(ctx context.Context, folder string, depth, limit int) (
	list []sandbox.FileInfo, more bool, err error) {
	more, err = s.EachFile(ctx, folder, depth, limit, func(f sandbox.FileInfo) error {
		list = append(list, f)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

// EachFile is ListFiles, with a call of take for each file as the sandbox reports it. An error of take ends it and is
// returned.
func (s *Sandbox) EachFile(ctx context.Context, folder string, depth, limit int,
	take func(sandbox.FileInfo) error) (more bool, err error) {
	if depth < 1 || depth > plan.MaxDepth {
		return false, sandbox.Invalidf("depth", "must be from 1 to %d", plan.MaxDepth)
	}
	if limit <= 0 || limit > MaxFileList {
		limit = MaxFileList
	}
	names, begun := 0, false
	err = s.files(ctx, folder, func(c *client.Client, full string) (err error) {
		if begun {
			return errCut
		}
		more, err = c.ListDir(ctx, guest.ListDir{Path: full, Depth: uint32(depth), Limit: uint32(limit)},
			func(f guest.FileInfo) error {
				begun = true
				if names += len(f.Path) + len(f.Target) + len(f.Err); names > maxFileNames {
					return errNamesFull
				}
				return take(fileInfo(f))
			})
		return err
	})
	if errors.Is(err, errNamesFull) {
		return true, nil
	}
	return more, err
}

// MakeFolder makes a folder and those above it. An existing one is no error.
func (s *Sandbox) MakeFolder(ctx context.Context, folder string) error {
	return s.files(ctx, folder, func(c *client.Client, full string) error {
		return c.MakeDir(ctx, guest.MakeDir{Path: full, Parents: true})
	})
}

// MoveFile renames a file or folder. It replaces an existing file only if replace is set.
func (s *Sandbox) MoveFile(ctx context.Context, from, to string, replace bool) error {
	target, err := plan.FilePath(to)
	if err != nil {
		return err
	}
	begun := false
	return s.files(ctx, from, func(c *client.Client, source string) error {
		if begun {
			return errCut // it may have been moved
		}
		begun = true
		return c.Move(ctx, guest.Move{From: source, To: target, Replace: replace})
	})
}

// RemoveFile removes a file or an empty folder; with all, a folder with its content.
func (s *Sandbox) RemoveFile(ctx context.Context, file string, all bool) error {
	repeated := false
	return s.files(ctx, file, func(c *client.Client, full string) error {
		err := c.Remove(ctx, guest.Remove{Path: full, Recursive: all})
		if repeated && errors.Is(err, syscall.ENOENT) {
			return nil // the call before removed it
		}
		repeated = true
		return err
	})
}

// Clean empties the workspace. A workspace that is a directory of the host is emptied only with force.
func (s *Sandbox) Clean(ctx context.Context, force bool) error {
	if dir := s.spec().Workspace; dir != "" && !force {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "force", Msg: "the workspace is the directory " + dir +
			" of the host, whose files would be removed",
			Fix: "repeat it with force"}
	}
	return s.files(ctx, sandbox.Workspace, func(c *client.Client, full string) error {
		return c.Remove(ctx, guest.Remove{Path: full, Recursive: true, Contents: true})
	})
}

// fileError gives an error of the guest the kind that its cause has.
func fileError(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []struct {
		errno syscall.Errno
		kind  sandbox.Kind
		fix   string
	}{
		{syscall.ENOENT, sandbox.NotFound, ""},
		{syscall.ENOTDIR, sandbox.Invalid, ""},
		{syscall.EISDIR, sandbox.Invalid, ""},
		{syscall.EEXIST, sandbox.Exists, "replace it, or choose another name"},
		{syscall.ENOTEMPTY, sandbox.Exists, "remove all of the folder"},
		{syscall.EACCES, sandbox.Invalid, ""},
		{syscall.EPERM, sandbox.Invalid, ""},
		{syscall.EROFS, sandbox.Invalid, "write below " + sandbox.Workspace},
		{syscall.ENOSPC, sandbox.TooLarge, "remove files, or create the sandbox with a higher disk limit"},
		{syscall.EMFILE, sandbox.Quota, "watch fewer folders at once"},
		{syscall.EDQUOT, sandbox.TooLarge, "remove files, or create the sandbox with a higher disk limit"},
	} {
		if errors.Is(err, known.errno) {
			return &sandbox.Error{Kind: known.kind, Op: "file", Err: err, Fix: known.fix}
		}
	}
	return err
}
