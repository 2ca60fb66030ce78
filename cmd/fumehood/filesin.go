package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// readFiles reads the files and folders of --file. It refuses symbolic links within a folder.
func (a *app) readFiles(args []string) ([]sandbox.File, error) {
	in := filesIn{left: plan.MaxFilesBytes}
	for _, arg := range args {
		if err := in.addNamed(a, arg); err != nil {
			return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--file", Err: err}
		}
	}
	return in.files, nil
}

// keepsWorkspace refuses files that would replace the user's own in the workspace, without --overwrite.
func keepsWorkspace(files []sandbox.File, workspace string, overwrite bool) error {
	if workspace == "" || overwrite {
		return nil
	}
	for _, f := range files {
		there := filepath.Join(workspace, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(there); err == nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--file", Msg: there + " exists already", Fix: "--overwrite"}
		}
	}
	return nil
}

// invalid classifies an error of the user's files.
func invalid(err error) error {
	if sandbox.KindOf(err) == sandbox.Internal {
		return &sandbox.Error{Kind: sandbox.Invalid, Err: err}
	}
	return err
}

// splitFileArg splits SRC[:DST]. The name of an existing file may hold a colon.
func splitFileArg(arg string) (source, target string) {
	if _, err := os.Lstat(arg); err != nil {
		if at := strings.LastIndexByte(arg, ':'); at > 0 && at < len(arg)-1 {
			return arg[:at], arg[at+1:]
		}
	}
	return arg, filepath.Base(filepath.Clean(arg))
}

type filesIn struct {
	files []sandbox.File
	left  int64 // bytes left to read
}

func (in *filesIn) addNamed(a *app, arg string) error {
	source, target := splitFileArg(arg)
	f, err := a.openNamed(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return in.add(f, target)
	}
	folder, err := nolink.OpenRoot(f.Name())
	if err != nil {
		return err
	}
	defer folder.Close()
	return in.addFolder(folder, target)
}

func (in *filesIn) addFolder(folder *os.Root, target string) error {
	return fs.WalkDir(folder.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return notRegular(filepath.Join(folder.Name(), p))
		}
		f, err := folder.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return in.add(f, path.Join(target, p))
	})
}

func (in *filesIn) add(f *os.File, target string) error {
	if len(in.files) >= plan.MaxFiles {
		return &sandbox.Error{Kind: sandbox.TooLarge, Msg: fmt.Sprintf("there are more than %d files", plan.MaxFiles)}
	}
	data, mode, err := readBounded(f, in.left, sandbox.FormatBytes(plan.MaxFilesBytes)+" of files together")
	if err != nil {
		return err
	}
	in.left -= int64(len(data))
	in.files = append(in.files, sandbox.File{Path: target, Mode: uint32(mode.Perm()), Data: data})
	return nil
}

// readNamed reads a regular file that the user named, of at most the given size.
func (a *app) readNamed(name string, most int64, bound string) ([]byte, error) {
	f, err := a.openNamed(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, _, err := readBounded(f, most, bound)
	return data, err
}

// readBounded reads a regular file of at most the given size.
func readBounded(f *os.File, most int64, bound string) ([]byte, fs.FileMode, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, notRegular(f.Name())
	}
	data, err := readAtMost(f, most, bound)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return data, info.Mode(), nil
}

func notRegular(name string) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Msg: name + " is not a regular file"}
}

func readAtMost(r io.Reader, most int64, bound string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = &sandbox.Error{Kind: sandbox.TooLarge, Msg: "is larger than the limit of " + bound}
	}
	return data, err
}
