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

// Paths of files in a living sandbox are absolute, or relative to the workspace. Everything is done in the sandbox, by its guest, with
// the rights of the code. Errors: NotFound, Exists, Invalid, TooLarge where the disk is full.

// Bounds of one listing.
const (
	MaxFileList  = 10_000  // entries
	maxFileNames = 4 << 20 // bytes of their paths and targets, which the code chooses
)

// errNamesFull ends a listing at maxFileNames.
var errNamesFull = errors.New("the names are long")

var fileTypes = map[guest.FileType]sandbox.FileType{guest.FileRegular: sandbox.TypeFile, guest.FileDir: sandbox.TypeFolder,
	guest.FileSymlink: sandbox.TypeSymlink, guest.FileDevice: sandbox.TypeDevice, guest.FilePipe: sandbox.TypePipe, guest.FileSocket: sandbox.TypeSocket}

func fileInfo(f guest.FileInfo) sandbox.FileInfo {
	return sandbox.FileInfo{Path: f.Path, Type: fileTypes[f.Type], Mode: f.Mode & 0o7777, Size: int64(min(f.Size, 1<<62)),
		Modified: time.Unix(0, f.MTime), Target: f.Target, Err: f.Err}
}

// files begins a call for a path.
func (s *Sandbox) files(file string) (*client.Client, string, error) {
	if err := s.ended(); err != nil {
		return nil, "", err
	}
	full, err := plan.FilePath(file)
	if err != nil {
		return nil, "", err
	}
	s.touch()
	return s.connection(), full, nil
}

// Stat describes one file; of a symbolic link, what it leads to.
func (s *Sandbox) Stat(ctx context.Context, file string) (sandbox.FileInfo, error) {
	c, full, err := s.files(file)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	f, err := c.Stat(ctx, guest.Stat{Path: full, Follow: true})
	return fileInfo(f), fileError(err)
}

// ReadFile copies a regular file to w, from an offset; a length of 0 is to its end. It returns what the file was when it was opened.
func (s *Sandbox) ReadFile(ctx context.Context, file string, offset, length int64, w io.Writer) (sandbox.FileInfo, error) {
	c, full, err := s.files(file)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	if offset < 0 || length < 0 {
		return sandbox.FileInfo{}, sandbox.Invalidf("range", "must not be negative")
	}
	defer s.touch()
	f, err := c.ReadFile(ctx, guest.ReadFile{Path: full, Offset: uint64(offset), Length: uint64(length)}, w)
	return fileInfo(f), fileError(err)
}

// WriteFile writes a regular file from r. Whoever reads it sees the old content or the new one, never a mixture. The folders above it are
// made. A mode of 0 is 0644.
func (s *Sandbox) WriteFile(ctx context.Context, file string, mode uint32, r io.Reader) error {
	c, full, err := s.files(file)
	if err != nil {
		return err
	}
	if mode&^0o777 != 0 {
		return sandbox.Invalidf("mode", "%#o has more than permission bits", mode)
	}
	defer s.touch()
	return fileError(c.WriteFile(ctx, guest.WriteFile{Path: full, Mode: mode, Atomic: true, MakeParent: true}, r))
}

// ListFiles lists a folder to a depth of at least 1, with paths relative to it. more reports whether there are others.
func (s *Sandbox) ListFiles(ctx context.Context, folder string, depth, limit int) (list []sandbox.FileInfo, more bool, err error) {
	c, full, err := s.files(folder)
	if err != nil {
		return nil, false, err
	}
	if depth < 1 || depth > plan.MaxDepth {
		return nil, false, sandbox.Invalidf("depth", "must be from 1 to %d", plan.MaxDepth)
	}
	if limit <= 0 || limit > MaxFileList {
		limit = MaxFileList
	}
	names := 0
	more, err = c.ListDir(ctx, guest.ListDir{Path: full, Depth: uint32(depth), Limit: uint32(limit)}, func(f guest.FileInfo) error {
		if names += len(f.Path) + len(f.Target) + len(f.Err); names > maxFileNames {
			return errNamesFull
		}
		list = append(list, fileInfo(f))
		return nil
	})
	if errors.Is(err, errNamesFull) {
		return list, true, nil
	}
	return list, more, fileError(err)
}

// MakeFolder makes a folder and those above it. One that is there already is no error.
func (s *Sandbox) MakeFolder(ctx context.Context, folder string) error {
	c, full, err := s.files(folder)
	if err != nil {
		return err
	}
	return fileError(c.MakeDir(ctx, guest.MakeDir{Path: full, Parents: true}))
}

// MoveFile renames a file or folder; a file that is there is replaced only if asked for.
func (s *Sandbox) MoveFile(ctx context.Context, from, to string, replace bool) error {
	c, source, err := s.files(from)
	if err != nil {
		return err
	}
	target, err := plan.FilePath(to)
	if err != nil {
		return err
	}
	return fileError(c.Move(ctx, guest.Move{From: source, To: target, Replace: replace}))
}

// RemoveFile removes a file or an empty folder; with all, a folder and what is in it.
func (s *Sandbox) RemoveFile(ctx context.Context, file string, all bool) error {
	c, full, err := s.files(file)
	if err != nil {
		return err
	}
	return fileError(c.Remove(ctx, guest.Remove{Path: full, Recursive: all}))
}

// Clean empties the workspace. A workspace that is a directory of the host is emptied only with force.
func (s *Sandbox) Clean(ctx context.Context, force bool) error {
	c, full, err := s.files(sandbox.Workspace)
	if err != nil {
		return err
	}
	if dir := s.live.spec.Workspace; dir != "" && !force {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "force", Msg: "the workspace is the directory " + dir + " of the host, whose files would be removed",
			Fix: "repeat it with force"}
	}
	return fileError(c.Remove(ctx, guest.Remove{Path: full, Recursive: true, Contents: true}))
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
		{syscall.EDQUOT, sandbox.TooLarge, "remove files, or create the sandbox with a higher disk limit"},
	} {
		if errors.Is(err, known.errno) {
			return &sandbox.Error{Kind: known.kind, Op: "file", Err: err, Fix: known.fix}
		}
	}
	return err
}
