package engine

import (
	"context"
	"io"
	"os"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// MaxArchived is the most files and folders of one archive.
const MaxArchived = 100_000

// PackFolder hands each file, folder and link below a folder to take, with paths relative to it, and the content of a
// regular file, of exactly its size. It leaves out sockets, pipes and devices. A file that changes meanwhile, or cannot
// be read, is an error. An error of take ends it and is returned.
func (s *Sandbox) PackFolder(ctx context.Context, folder string,
	take func(sandbox.FileInfo, io.Reader) error) error {
	begun := false
	return s.files(ctx, folder, func(c *client.Client, full string) error {
		if begun {
			return errCut
		}
		return c.Pack(ctx, guest.Pack{Base: full, MaxFiles: MaxArchived}, func(f guest.FileInfo,
			content io.Reader) error {
			begun = true
			info := fileInfo(f)
			switch info.Type {
			case sandbox.TypeFile, sandbox.TypeFolder, sandbox.TypeSymlink:
			default:
				if f.Err == "" && info.Path != "." {
					return nil
				}
			}
			if f.Err != "" || f.Omitted != "" {
				return &sandbox.Error{Kind: sandbox.Invalid, Op: "file", Msg: info.Path + ": " + f.Err + f.Omitted}
			}
			return take(info, content)
		})
	})
}

// UnpackFolder makes the files, folders and links that next returns, in order, until io.EOF, below a folder, which is
// made. The reader of a regular file must have its size. An existing file is replaced. After an error, earlier entries
// stay.
func (s *Sandbox) UnpackFolder(ctx context.Context, folder string, next func() (sandbox.FileInfo, io.Reader, error)) (
	files int, bytes int64, err error) {
	begun := false
	err = s.files(ctx, folder, func(c *client.Client, full string) error {
		if begun {
			return errCut
		}
		begun = true
		if err := c.MakeDir(ctx, guest.MakeDir{Path: full, Parents: true}); err != nil {
			return err
		}
		made, err := c.Unpack(ctx, guest.Unpack{Base: full, MaxFiles: MaxArchived},
			func() (guest.FileInfo, io.Reader, error) {
				info, content, err := next()
				if err != nil {
					return guest.FileInfo{}, nil, err
				}
				return guestInfo(info), content, nil
			})
		files, bytes = int(made.Files), int64(made.Bytes)
		return err
	})
	return files, bytes, err
}

func guestInfo(f sandbox.FileInfo) guest.FileInfo {
	out := guest.FileInfo{Path: f.Path, Mode: f.Mode & uint32(os.ModePerm), Size: uint64(f.Size), Target: f.Target}
	for of, name := range fileTypes {
		if name == f.Type {
			out.Type = of
		}
	}
	if !f.Modified.IsZero() {
		out.MTime = f.Modified.UnixNano()
	}
	return out
}
