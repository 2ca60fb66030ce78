package e2bapi

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem"
	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem/filesystemconnect"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// filesystem serves the files of a sandbox.
type filesystem struct {
	filesystemconnect.UnimplementedFilesystemHandler
	watchers *watchers
}

// entryOf describes a file. It is a symbolic link if target is not "". Messages have no other text than UTF-8, and one
// with another name would have no form at all.
func entryOf(file string, i sandbox.FileInfo, target string) *pb.EntryInfo {
	file, target = validText(file), validText(target)
	mode := fs.FileMode(i.Mode & 0o777)
	e := &pb.EntryInfo{Name: path.Base(file), Path: file, Size: i.Size, Mode: i.Mode, Owner: userName(i.UID),
		Group: userName(i.GID), ModifiedTime: timestamppb.New(i.Modified)}
	switch i.Type {
	case sandbox.TypeFile:
		e.Type = pb.FileType_FILE_TYPE_FILE
	case sandbox.TypeFolder:
		e.Type, mode = pb.FileType_FILE_TYPE_DIRECTORY, mode|fs.ModeDir
	case sandbox.TypeSymlink: // to nothing
		e.Type, mode = pb.FileType_FILE_TYPE_SYMLINK, mode|fs.ModeSymlink
	}
	e.Permissions = mode.String()
	if target != "" {
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(file), target)
		}
		e.SymlinkTarget, e.IsSymlink = &target, true
	}
	return e
}

func validText(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// userName names a user or group of a sandbox: that of the code as E2B's templates do.
func userName(id uint32) string {
	switch id {
	case 0:
		return "root"
	case sandbox.DefaultUser.UID:
		return "user"
	}
	return strconv.FormatUint(uint64(id), 10)
}

func stat(ctx context.Context, file string) (*pb.EntryInfo, error) {
	i, err := sandboxIn(ctx).StatLink(ctx, file)
	target := i.Target
	if err == nil && i.Type == sandbox.TypeSymlink {
		if at, err := sandboxIn(ctx).Stat(ctx, file); err == nil {
			i = at
		}
	}
	if sandbox.KindOf(err) == sandbox.NotFound {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("path '%s' does not exist", file))
	}
	if err != nil {
		return nil, err
	}
	e := entryOf(file, i, target)
	e.Metadata = callIn(ctx).files.get(sandboxIn(ctx), file)
	return e, nil
}

// Stat describes one file.
func (filesystem) Stat(ctx context.Context, r *connect.Request[pb.StatRequest]) (*connect.Response[pb.StatResponse],
	error) {
	e, err := stat(ctx, pathIn(sandboxIn(ctx), r.Msg.Path))
	return connect.NewResponse(&pb.StatResponse{Entry: e}), err
}

// MakeDir creates a folder and its missing parents.
func (filesystem) MakeDir(ctx context.Context, r *connect.Request[pb.MakeDirRequest]) (
	*connect.Response[pb.MakeDirResponse], error) {
	dir := pathIn(sandboxIn(ctx), r.Msg.Path)
	if i, err := sandboxIn(ctx).Stat(ctx, dir); err == nil {
		if i.Type != sandbox.TypeFolder {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path '%s' is not a directory", dir))
		}
		return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("directory '%s' already exists", dir))
	}
	if err := sandboxIn(ctx).MakeFolder(ctx, dir); err != nil {
		return nil, err
	}
	e, err := stat(ctx, dir)
	return connect.NewResponse(&pb.MakeDirResponse{Entry: e}), err
}

// Move moves a file or folder, and creates the missing parents of the new path.
func (filesystem) Move(ctx context.Context, r *connect.Request[pb.MoveRequest]) (*connect.Response[pb.MoveResponse],
	error) {
	from, to := pathIn(sandboxIn(ctx), r.Msg.Source), pathIn(sandboxIn(ctx), r.Msg.Destination)
	if _, err := stat(ctx, from); err != nil {
		return nil, err
	}
	s := sandboxIn(ctx)
	err := s.MakeFolder(ctx, path.Dir(to))
	if err == nil || sandbox.KindOf(err) == sandbox.Exists {
		err = s.MoveFile(ctx, from, to, true)
	}
	if err != nil {
		return nil, err
	}
	callIn(ctx).w.Steps(callIn(ctx).files.move(s, from, to))
	e, err := stat(ctx, to)
	return connect.NewResponse(&pb.MoveResponse{Entry: e}), err
}

// ListDir lists a folder, in lexical order, each folder before its files.
func (filesystem) ListDir(ctx context.Context, r *connect.Request[pb.ListDirRequest]) (
	*connect.Response[pb.ListDirResponse], error) {
	dir := pathIn(sandboxIn(ctx), r.Msg.Path)
	e, err := stat(ctx, dir)
	if err != nil {
		return nil, err
	}
	if e.Type != pb.FileType_FILE_TYPE_DIRECTORY {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path '%s' is not a directory", dir))
	}
	in, out := callIn(ctx), &pb.ListDirResponse{}
	if err := in.server.Reserve(ctx, in.w, engine.FileBuffer); err != nil {
		return nil, err
	}
	more, err := in.sandbox.EachFile(ctx, dir, int(max(1, r.Msg.Depth)), engine.MaxFileList,
		func(i sandbox.FileInfo) error {
			file := path.Join(dir, i.Path)
			e := entryOf(file, i, i.Target)
			e.Metadata = in.files.get(in.sandbox, file)
			out.Entries = append(out.Entries, e)
			return in.holdEntry(e)
		})
	if err == nil && more {
		err = &sandbox.Error{Kind: sandbox.TooLarge,
			Msg: fmt.Sprintf("'%s' has more than %d files", dir, engine.MaxFileList)}
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

// Remove removes a file or folder; a missing one is no error.
func (filesystem) Remove(ctx context.Context, r *connect.Request[pb.RemoveRequest]) (
	*connect.Response[pb.RemoveResponse], error) {
	s := sandboxIn(ctx)
	file := pathIn(s, r.Msg.Path)
	err := s.RemoveFile(ctx, file, true)
	if sandbox.KindOf(err) == sandbox.NotFound {
		err = nil
	}
	if err == nil {
		callIn(ctx).w.Steps(callIn(ctx).files.remove(s, file))
	}
	return connect.NewResponse(&pb.RemoveResponse{}), err
}
