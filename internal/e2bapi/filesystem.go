package e2bapi

import (
	"context"
	"fmt"
	"io/fs"
	"path"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem"
	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem/filesystemconnect"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// filesystem serves the files of a sandbox.
type filesystem struct {
	filesystemconnect.UnimplementedFilesystemHandler
}

// entryOf describes a file.
func entryOf(file string, i sandbox.FileInfo) *pb.EntryInfo {
	mode := fs.FileMode(i.Mode)
	e := &pb.EntryInfo{Name: path.Base(file), Path: file, Size: i.Size, Mode: i.Mode, Owner: "user", Group: "user",
		ModifiedTime: timestamppb.New(i.Modified)}
	switch i.Type {
	case sandbox.TypeFile:
		e.Type = pb.FileType_FILE_TYPE_FILE
	case sandbox.TypeFolder:
		e.Type, mode = pb.FileType_FILE_TYPE_DIRECTORY, mode|fs.ModeDir
	case sandbox.TypeSymlink:
		e.Type, mode = pb.FileType_FILE_TYPE_SYMLINK, mode|fs.ModeSymlink
		e.SymlinkTarget, e.IsSymlink = &i.Target, true
	}
	e.Permissions = mode.String()
	return e
}

func stat(ctx context.Context, file string) (*pb.EntryInfo, error) {
	i, err := sandboxIn(ctx).Stat(ctx, file)
	if sandbox.KindOf(err) == sandbox.NotFound {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("path '%s' does not exist", file))
	}
	if err != nil {
		return nil, failed(err)
	}
	return entryOf(file, i), nil
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
		return nil, failed(err)
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
		return nil, failed(err)
	}
	e, err := stat(ctx, to)
	return connect.NewResponse(&pb.MoveResponse{Entry: e}), err
}

const maxEntries = 100_000 // of one listing

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
	list, more, err := sandboxIn(ctx).ListFiles(ctx, dir, int(max(1, r.Msg.Depth)), maxEntries)
	if err == nil && more {
		err = &sandbox.Error{Kind: sandbox.TooLarge, Msg: fmt.Sprintf("'%s' has more than %d files", dir, maxEntries)}
	}
	if err != nil {
		return nil, failed(err)
	}
	out := &pb.ListDirResponse{}
	for _, i := range list {
		out.Entries = append(out.Entries, entryOf(path.Join(dir, i.Path), i))
	}
	return connect.NewResponse(out), nil
}

// Remove removes a file or folder; a missing one is no error.
func (filesystem) Remove(ctx context.Context, r *connect.Request[pb.RemoveRequest]) (
	*connect.Response[pb.RemoveResponse], error) {
	err := sandboxIn(ctx).RemoveFile(ctx, pathIn(sandboxIn(ctx), r.Msg.Path), true)
	if sandbox.KindOf(err) == sandbox.NotFound {
		err = nil
	}
	return connect.NewResponse(&pb.RemoveResponse{}), failed(err)
}
