package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// readFiles reads the files and folders that --file names. Symbolic links are followed where the user names one, and refused
// within a folder.
func readFiles(args []string) ([]sandbox.File, error) {
	in := filesIn{left: engine.MaxFilesBytes}
	for _, arg := range args {
		source, target := splitFileArg(arg)
		info, err := os.Stat(source)
		switch {
		case err != nil:
		case info.IsDir():
			err = in.addFolder(source, target)
		default:
			err = in.add(source, target)
		}
		if err != nil {
			return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--file", Err: err}
		}
	}
	return in.files, nil
}

// keepsWorkdir refuses files that would replace what lies in the workdir, which is the user's own, unless that was said.
func keepsWorkdir(files []sandbox.File, workdir string, overwrite bool) error {
	if workdir == "" || overwrite {
		return nil
	}
	for _, f := range files {
		there := filepath.Join(workdir, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(there); err == nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--file", Msg: there + " is there already", Mend: "--overwrite replaces it"}
		}
	}
	return nil
}

// invalid classes an error of the user's files.
func invalid(err error) error {
	if sandbox.KindOf(err) == sandbox.Internal {
		return &sandbox.Error{Kind: sandbox.Invalid, Err: err}
	}
	return err
}

// splitFileArg splits SRC[:DST]. A file whose own name has a colon is meant as it stands.
func splitFileArg(arg string) (source, target string) {
	if _, err := os.Stat(arg); err != nil {
		if at := strings.LastIndexByte(arg, ':'); at > 0 && at < len(arg)-1 {
			return arg[:at], arg[at+1:]
		}
	}
	return arg, filepath.Base(filepath.Clean(arg))
}

type filesIn struct {
	files []sandbox.File
	left  int64 // bytes that may still be read
}

func (in *filesIn) addFolder(source, target string) error {
	source, err := filepath.EvalSymlinks(source) // the folder itself may be a link: the user named it
	if err != nil {
		return err
	}
	return filepath.WalkDir(source, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", p)
		}
		rel, err := filepath.Rel(source, p)
		if err != nil {
			return err
		}
		return in.add(p, path.Join(target, filepath.ToSlash(rel)))
	})
}

func (in *filesIn) add(source, target string) error {
	if len(in.files) >= engine.MaxFiles {
		return &sandbox.Error{Kind: sandbox.TooLarge, Msg: fmt.Sprintf("there are more than %d files", engine.MaxFiles)}
	}
	data, mode, err := readBounded(source, in.left, sandbox.FormatBytes(engine.MaxFilesBytes)+" of files together")
	if err != nil {
		return err
	}
	in.left -= int64(len(data))
	in.files = append(in.files, sandbox.File{Path: target, Mode: uint32(mode.Perm()), Data: data})
	return nil
}

// readBounded reads a regular file of at most so many bytes. It never opens what may block or act, such as a pipe or a device.
func readBounded(name string, most int64, bound string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &sandbox.Error{Kind: sandbox.Invalid, Msg: name + " is not a regular file"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := readAtMost(f, most, bound)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return data, info.Mode(), nil
}

func readAtMost(r io.Reader, most int64, bound string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = &sandbox.Error{Kind: sandbox.TooLarge, Msg: "it is over the bound of " + bound}
	}
	return data, err
}
