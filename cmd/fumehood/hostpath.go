package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Code may leave symbolic links in a --workspace. A later command would follow them with its user's rights: to a secret that it sends
// along, or to a file that it overwrites. Ownership cannot tell such links apart, as files of a workspace belong to its owner. So links in
// a path that the user names are followed only where code cannot have made them: in directories that notForCode refuses and that lie
// below no other, such as /, /home and the user's home, and in root's directories that the user cannot write to. The error for any other
// link names the path to type instead. The configuration and the file of keys are exempt: who can replace them by a link could also write
// them.

// maxLinks is how many links of one path are followed, as in the kernel (path_resolution(7)).
const maxLinks = 40

// named returns the absolute path, without links, of what the user names. It need not exist. The kernel resolves its own virtual files,
// such as /dev/stdin.
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
			at = next // opening it reports what is missing or unreachable
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

// absolute makes a path absolute, from the kernel's link-free name of the working directory. PWD may contain links that the shell
// followed; a name that begins with PWD means the same directory.
func absolute(name string) (string, error) {
	logical, err := os.Getwd()
	if err != nil && filepath.IsAbs(name) { // the working directory is gone, but not needed
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

// split splits an absolute path after its root, which is "/" or a volume's.
func split(path string) (root, rest string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	return root, strings.TrimPrefix(path, root)
}

// mayBeCodes reports whether code can have written to a directory: notForCode allows it or one above it.
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

// openNamed opens a file or folder that the user names, for reading. It opens nothing that may block or act, such as pipes and devices.
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
