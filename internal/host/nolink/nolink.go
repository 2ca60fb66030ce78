// Package nolink opens host paths that contain no symbolic link. Code that could once write to a host folder may have
// left links there; following one on the host opens whatever the code chose.
package nolink

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Open opens an absolute, clean path like os.OpenFile, but follows no link and does not wait on a pipe. The kernel
// checks for links in the same call where it can (Linux 5.6, macOS 11); otherwise Open checks before and after.
func Open(path string, flag int, perm os.FileMode) (*os.File, error) { return open(path, flag, perm) }

// OpenRoot opens an absolute, clean path as a directory and follows no link.
func OpenRoot(path string) (*os.Root, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	meant, err := f.Stat()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path) // follows links, so the result must equal what was opened above
	if err != nil {
		return nil, err
	}
	if info, statErr := root.Stat("."); statErr != nil || !os.SameFile(meant, info) {
		return nil, errors.Join(changed(path), root.Close())
	}
	return root, nil
}

// Stat is os.Lstat for a path that may contain no link.
func Stat(path string) (os.FileInfo, error) {
	if err := refuse(path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// Refuse returns the error for a symbolic link. It omits the target, which hostile code may have chosen.
func Refuse(link string) error {
	return &sandbox.Error{Kind: sandbox.Invalid,
		Msg: link + " is a symbolic link, and sandboxed code may have created it",
		Fix: "name the file or folder by a path without links, or replace the link"}
}

// refuse returns an error if an element of a path is a link.
func refuse(path string) error {
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return Refuse(at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func changed(path string) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Msg: path + " was replaced while it was opened"}
}

// openLooking is Open for kernels that do not check for links themselves.
func openLooking(path string, flag int, perm os.FileMode) (*os.File, error) {
	if err := refuse(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		err = refuse(path)
	}
	if err == nil {
		if info, statErr := os.Lstat(path); statErr != nil || !os.SameFile(opened, info) {
			err = changed(path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
