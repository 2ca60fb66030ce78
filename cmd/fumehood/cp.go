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

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxCopyDepth = 64     // levels of folders
	maxCopyFiles = 10_000 // files of a folder that are copied out, as many as a server lists
)

func (a *app) newCp() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp [FLAGS] NAME:PATH LOCAL | LOCAL NAME:PATH",
		Short: "Copy files and folders from or to a sandbox",
		Long: `Cp copies a file, or a folder with its content, out of a living sandbox or into it. PATH is
absolute, or relative to /workspace. - is standard input or output. Cp replaces existing files. It
skips and names symbolic links, devices and pipes in a folder.`,
		Example: `  fumehood cp agent-7:plot.png .
  fumehood cp data/ agent-7:data`,
		Args: cobra.ExactArgs(2),
	}
	return a.onServer(cmd, 0, func(ctx context.Context, c *client.Client, args []string) error {
		from, out := splitRemote(args[0])
		to, in := splitRemote(args[1])
		if in == out {
			return invalid("cp", "exactly one of the two must be in a sandbox, NAME:PATH",
				"fumehood cp agent-7:plot.png . (a local name with a colon: ./a:b)")
		}
		x := &copying{app: a, client: c}
		var err error
		if out {
			err = x.out(ctx, from, args[1])
		} else {
			err = x.in(ctx, args[0], to)
		}
		if err == nil && x.failed {
			err = exitError(exitFailure)
		}
		return err
	})
}

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

type copying struct {
	app    *app
	client *client.Client
	failed bool // a file was left out
}

func (x *copying) leaveOut(name, why string) {
	x.failed = true
	x.app.warn("%s was left out: %s", terminal.VisibleName(name), terminal.OneLine(why))
}

func (x *copying) out(ctx context.Context, from remote, to string) error {
	if to == "-" {
		return x.client.Read(ctx, from.name, from.path, terminal.Sanitize(x.app.Stdout))
	}
	info, err := x.client.Stat(ctx, from.name, from.path)
	if err != nil {
		return err
	}
	base := path.Base(path.Clean("/" + from.path))
	isFolder := info.Type == sandbox.TypeFolder
	if at, err := x.app.host().Resolve(to); err != nil {
		return hostfiles.Error("cp", err)
	} else if target, err := os.Stat(at); err == nil && target.IsDir() && base != "/" ||
		!isFolder && strings.HasSuffix(to, string(filepath.Separator)) {
		to = filepath.Join(to, base)
	}
	if isFolder {
		return x.folderOut(ctx, from, to)
	}
	folder, err := x.app.host().OpenOutput(filepath.Dir(to), true)
	if err != nil {
		return err
	}
	defer folder.Close()
	return x.fileOut(ctx, from, parseMode(info.Mode), folder, filepath.Base(to))
}

// fileOut copies one file into a folder of this host.
func (x *copying) fileOut(ctx context.Context, from remote, mode uint32, folder *hostfiles.Output, name string) error {
	return folder.WriteFrom(filepath.ToSlash(name), mode, func(w io.Writer) error {
		return x.client.Read(ctx, from.name, from.path, w)
	})
}

// folderOut copies the folders and regular files of a folder, whose names are hostile: hostfiles.Output refuses names
// outside of the local folder.
func (x *copying) folderOut(ctx context.Context, from remote, to string) error {
	list, err := x.client.List(ctx, from.name, from.path, maxCopyDepth, maxCopyFiles)
	if err != nil {
		return err
	}
	folder, err := x.app.host().OpenOutput(to, true)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, f := range list.Files {
		name, err := hostfiles.LocalName(f.Path)
		switch {
		case err != nil:
		case f.Type == sandbox.TypeFolder:
			err = folder.MakeFolders(name)
		case f.Type != sandbox.TypeFile:
			err = fmt.Errorf("it is a %s", terminal.VisibleName(string(f.Type)))
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
	if list.More {
		x.leaveOut("the rest of "+from.path, fmt.Sprintf("it has more than %d files", maxCopyFiles))
	}
	return nil
}

func (x *copying) in(ctx context.Context, from string, to remote) error {
	if from == "-" {
		if x.app.Stdin == nil {
			return errNoStdin
		}
		return x.client.Write(ctx, to.name, client.Upload{Path: to.path, Mode: "0644", Content: x.app.Stdin, Size: -1})
	}
	f, err := x.app.host().Open(from)
	if err != nil {
		return hostfiles.Error("cp", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	base := filepath.Base(f.Name())
	target, err := x.client.Stat(ctx, to.name, to.path)
	if err == nil && target.Type == sandbox.TypeFolder || strings.HasSuffix(to.path, "/") {
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
		return sandbox.Invalidf("cp", "%s is not a regular file", f.Name())
	}
	return x.client.Write(ctx, to.name, client.Upload{Path: to.path, Mode: fmt.Sprintf("%04o", info.Mode().Perm()),
		Content: io.LimitReader(f, info.Size()), Size: info.Size()})
}

// folderIn copies the folders and regular files below a folder. It reads nothing outside of the folder.
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
