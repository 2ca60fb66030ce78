package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	copyDepth = 64     // most levels of folders that are copied
	copyFiles = 10_000 // most files of a folder that are copied out, as many as a server lists
)

func (a *app) newCp() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "cp [FLAGS] NAME:PATH LOCAL | LOCAL NAME:PATH",
		Short: "Copy files and folders from or to a sandbox",
		Long: `Cp copies a file, or a folder with all in it, out of a living sandbox or into it. A PATH is
absolute, or relative to /workspace. - is standard input or output. A file that is there is
replaced. Symbolic links, devices and pipes in a folder are left out, and named.`,
		Example: `  fumehood cp agent-7:plot.png .
  fumehood cp data/ agent-7:data`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, out := splitRemote(args[0])
			to, in := splitRemote(args[1])
			if in == out {
				return &sandbox.Error{Kind: sandbox.Invalid, Op: "cp", Msg: "exactly one of the two must be of a sandbox, NAME:PATH",
					Fix: "fumehood cp agent-7:plot.png . (a local name with a colon: ./a:b)"}
			}
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			x := &copying{app: a, client: c}
			if out {
				err = x.out(cmd.Context(), from, args[1])
			} else {
				err = x.in(cmd.Context(), args[0], to)
			}
			if err == nil && x.failed {
				err = exitError(exitFailure)
			}
			return err
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// remote is a path in a sandbox.
type remote struct{ name, path string }

// splitRemote splits NAME:PATH. As in scp, a word with a slash before its colon is local.
func splitRemote(word string) (remote, bool) {
	name, file, ok := strings.Cut(word, ":")
	if !ok || name == "" || name[0] == '.' || strings.Contains(name, "/") {
		return remote{}, false
	}
	if file == "" {
		file = sandbox.Workspace
	}
	return remote{name, file}, true
}

// copying is one run of cp.
type copying struct {
	app    *app
	client *apiclient.Client
	failed bool // something was left out
}

func (x *copying) leaveOut(name, why string) {
	x.failed = true
	x.app.warn("%s was left out: %s", visibleName(name), oneLine(why))
}

// out copies from a sandbox.
func (x *copying) out(ctx context.Context, from remote, to string) error {
	if to == "-" {
		return x.client.Read(ctx, from.name, from.path, forTerminal(x.app.Stdout))
	}
	info, err := x.client.Stat(ctx, from.name, from.path)
	if err != nil {
		return err
	}
	base := path.Base(path.Clean("/" + from.path))
	if at, err := x.app.named(to); err != nil {
		return &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "cp", Err: err}
	} else if there, err := os.Stat(at); err == nil && there.IsDir() && base != "/" {
		to = filepath.Join(to, base)
	} else if strings.HasSuffix(to, string(filepath.Separator)) && info.Type != string(sandbox.TypeFolder) {
		to = filepath.Join(to, base)
	}
	if info.Type == string(sandbox.TypeFolder) {
		return x.folderOut(ctx, from, to)
	}
	folder, err := x.app.openFilesOut(filepath.Dir(to), true)
	if err != nil {
		return err
	}
	defer folder.close()
	return x.fileOut(ctx, from, parseMode(info.Mode), folder, filepath.Base(to))
}

// fileOut copies one file into a folder of this host, under a name that checkOutName accepts.
func (x *copying) fileOut(ctx context.Context, from remote, mode uint32, folder *filesOut, name string) error {
	return folder.fill(filepath.ToSlash(name), mode, func(w io.Writer) error { return x.client.Read(ctx, from.name, from.path, w) })
}

// folderOut copies the folders and regular files of a folder. Whatever the sandbox says of names, all is written below the folder.
func (x *copying) folderOut(ctx context.Context, from remote, to string) error {
	list, more, err := x.client.List(ctx, from.name, from.path, copyDepth, copyFiles)
	if err != nil {
		return err
	}
	folder, err := x.app.openFilesOut(to, true)
	if err != nil {
		return err
	}
	defer folder.close()
	for _, f := range list {
		name, err := checkOutName(f.Path)
		switch {
		case err != nil:
		case f.Type == string(sandbox.TypeFolder):
			err = folder.makeFolders(name)
		case f.Type != string(sandbox.TypeFile):
			err = fmt.Errorf("it is a %s", visibleName(f.Type))
		default:
			err = x.fileOut(ctx, remote{from.name, path.Join(from.path, f.Path)}, parseMode(f.Mode), folder, f.Path)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			x.leaveOut(f.Path, textOf(err))
		}
	}
	if more {
		x.leaveOut("the rest of "+from.path, fmt.Sprintf("it has more than %d files", copyFiles))
	}
	return nil
}

// in copies into a sandbox.
func (x *copying) in(ctx context.Context, from string, to remote) error {
	if from == "-" {
		if x.app.Stdin == nil {
			return sandbox.Invalidf("standard input", "there is none")
		}
		return x.client.Write(ctx, to.name, apiclient.Upload{Path: to.path, Mode: "0644", Content: x.app.Stdin, Size: -1})
	}
	f, err := x.app.openNamed(from)
	if err != nil {
		return &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "cp", Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	base := filepath.Base(f.Name())
	there, err := x.client.Stat(ctx, to.name, to.path)
	if err == nil && there.Type == string(sandbox.TypeFolder) || strings.HasSuffix(to.path, "/") {
		to.path = path.Join(to.path, base)
	} else if err != nil && sandbox.KindOf(err) != sandbox.NotFound {
		return err
	}
	if !info.IsDir() {
		return x.fileIn(ctx, f, to)
	}
	folder, err := nolink.OpenRoot(f.Name())
	if err != nil {
		return err
	}
	defer folder.Close()
	return x.folderIn(ctx, folder, to)
}

func (x *copying) fileIn(ctx context.Context, f *os.File, to remote) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notRegular(f.Name())
	}
	return x.client.Write(ctx, to.name, apiclient.Upload{Path: to.path, Mode: fmt.Sprintf("%04o", info.Mode().Perm()),
		Content: io.LimitReader(f, info.Size()), Size: info.Size()})
}

// folderIn copies the folders and regular files below a folder. Nothing outside of it is read.
func (x *copying) folderIn(ctx context.Context, folder *os.Root, to remote) error {
	return fs.WalkDir(folder.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		target := remote{to.name, path.Join(to.path, p)}
		switch {
		case d.IsDir():
			return x.client.MakeFolder(ctx, target.name, target.path)
		case !d.Type().IsRegular():
			x.leaveOut(p, "it is not a regular file")
			return nil
		}
		f, err := folder.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return x.fileIn(ctx, f, target)
	})
}
