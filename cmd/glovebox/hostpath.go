package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/internal/nolink"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Code that ran with a --workspace may have left symbolic links in it, which a later command of ours would follow with the rights of its user:
// to a secret that it sends along, or to a file that it writes over. Whose a link is does not tell, as files of a workspace are its owner's. So
// a link in a path that the user names is followed only where no code can have made it: in a directory that neither is nor lies below one
// that notForCode lets it have, such as / and /home, and the user's home itself, which holds our configuration, or in one of root's that the
// user cannot write to. Any other is refused, and the error names the path to type instead. The configuration and the file of keys are left out of it: who can put a link in their place
// could as well write what they say.

// maxLinks is how many links of one path are followed, as in the kernel (path_resolution(7)).
const maxLinks = 40

// named returns the absolute path, without links, of what the user names. It need not exist. What the kernel makes up is the kernel's to
// resolve: /dev/stdin leads to whatever we were given.
func (a *app) named(name string) (string, error) {
	path, err := absolute(name)
	if err != nil {
		return "", err
	}
	links := 0
	at, rest := split(path)
	for rest != "" && !ofKernel(at) {
		var element string
		element, rest, _ = strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(at, element)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			at = next // where it is not there, or cannot be reached, whoever opens it says so
			continue
		}
		if links++; links > maxLinks {
			return "", &sandbox.Error{Kind: sandbox.Invalid, Err: &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}}
		}
		if a.mayBeCodes(at) && !isRoots(at) {
			return "", nolink.Refuse(next)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(at, to)
		}
		at, rest = split(filepath.Join(to, rest))
	}
	return filepath.Join(at, rest), nil
}

// absolute makes a path absolute by the directory that the process is in, which the kernel knows without links. PWD may name it through some:
// the shell followed those, and a name that begins with it means the same directory.
func absolute(name string) (string, error) {
	logical, err := os.Getwd()
	if err != nil && filepath.IsAbs(name) { // the directory that we are in is gone, and no matter
		return filepath.Clean(name), nil
	}
	if err != nil {
		return "", err
	}
	physical := resolved(logical)
	switch name = filepath.Clean(name); {
	case !filepath.IsAbs(name):
		return filepath.Join(physical, name), nil
	case within(name, logical):
		return filepath.Join(physical, name[len(logical):]), nil
	}
	return name, nil
}

// split splits an absolute path behind its root, which is "/" or a volume's.
func split(path string) (root, rest string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	return root, strings.TrimPrefix(path, root)
}

// mayBeCodes says whether code can have written to a directory: it or one above it is none that notForCode refuses.
func (a *app) mayBeCodes(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if msg, _ := a.notForCode(dir); msg == "" {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// openNamed opens a file or a folder that the user names, for reading. Nothing is opened that may block or act, such as a pipe or a device.
func (a *app) openNamed(name string) (*os.File, error) {
	path, err := a.named(name)
	if err != nil {
		return nil, err
	}
	look := os.Lstat
	if ofKernel(path) {
		look = os.Stat
	}
	info, err := look(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, notRegular(path)
	}
	return openHost(path, os.O_RDONLY, 0)
}

// openHost opens a path that named returned.
func openHost(path string, flag int, perm os.FileMode) (*os.File, error) {
	if ofKernel(path) {
		return os.OpenFile(path, flag, perm)
	}
	return nolink.Open(path, flag, perm)
}
