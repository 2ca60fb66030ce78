package hostfiles

import (
	"errors"
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

// Upload reads the files and folders of --file, each SRC[:DST]. It refuses symbolic links within a folder.
func (h Host) Upload(args []string) ([]sandbox.File, error) {
	u := upload{left: plan.MaxFilesBytes}
	for _, arg := range args {
		if err := u.addNamed(h, arg); err != nil {
			return nil, Error("--file", err)
		}
	}
	return u.files, nil
}

// CheckOverwrite refuses uploaded files that would replace files in the workspace.
func CheckOverwrite(files []sandbox.File, workspace string) error {
	for _, f := range files {
		existing := filepath.Join(workspace, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(existing); err == nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--file", Msg: existing + " exists already",
				Fix: "--overwrite"}
		}
	}
	return nil
}

// splitUpload splits SRC[:DST]. The name of an existing file may contain a colon.
func splitUpload(arg string) (source, target string) {
	if _, err := os.Lstat(arg); err != nil {
		if at := strings.LastIndexByte(arg, ':'); at > 0 && at < len(arg)-1 {
			return arg[:at], arg[at+1:]
		}
	}
	return arg, filepath.Base(filepath.Clean(arg))
}

type upload struct {
	files []sandbox.File
	left  int64 // bytes that may still be read
}

func (u *upload) addNamed(h Host, arg string) error {
	source, target := splitUpload(arg)
	f, err := h.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.IsDir() {
		return errors.Join(err, u.add(f, target))
	}
	folder, err := nolink.OpenRoot(f.Name())
	if err != nil {
		return err
	}
	defer folder.Close()
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
		return u.add(f, path.Join(target, p))
	})
}

func (u *upload) add(f *os.File, target string) error {
	if len(u.files) >= plan.MaxFiles {
		return &sandbox.Error{Kind: sandbox.TooLarge, Msg: fmt.Sprintf("there are more than %d files", plan.MaxFiles)}
	}
	data, mode, err := readRegular(f, u.left, sandbox.FormatBytes(plan.MaxFilesBytes)+" of files together")
	if err != nil {
		return err
	}
	u.left -= int64(len(data))
	u.files = append(u.files, sandbox.File{Path: target, Mode: uint32(mode.Perm()), Data: data})
	return nil
}

// Read reads a regular file of at most limit bytes. op is the flag that names it.
func (h Host) Read(op, name string, limit int64) ([]byte, error) {
	f, err := h.Open(name)
	if err != nil {
		return nil, Error(op, err)
	}
	defer f.Close()
	data, _, err := readRegular(f, limit, sandbox.FormatBytes(limit))
	if err != nil {
		return nil, Error(op, err)
	}
	return data, nil
}

func readRegular(f *os.File, limit int64, bound string) ([]byte, fs.FileMode, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, notRegular(f.Name())
	}
	data, err := readAll(f, limit, bound)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return data, info.Mode(), nil
}

func notRegular(name string) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Msg: name + " is not a regular file"}
}

// ReadAll reads at most limit bytes, and refuses more.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	return readAll(r, limit, sandbox.FormatBytes(limit))
}

func readAll(r io.Reader, limit int64, bound string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &sandbox.Error{Kind: sandbox.TooLarge, Msg: "is larger than the limit of " + bound}
	}
	return data, err
}
