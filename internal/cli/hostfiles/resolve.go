// Package hostfiles opens files of this host that the user names, and writes the files that a sandbox returns.
//
// Code can leave symbolic links in a --workspace. A later command would follow them with its user's rights: to a secret
// that it uploads, or to a file that it overwrites. Ownership does not identify such links, because the files of a
// workspace belong to its owner. So Host follows a link only where code cannot have made it: in directories that code
// must not write to and that lie below no other directory, such as /, /home and the user's home, and in root's
// directories that the user cannot write to. The error for any other link names the path to type instead. The
// configuration and the file of keys are exempt: a user who can replace one by a link can also write it.
package hostfiles

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxLinks is the number of links in one path that are followed, as in the kernel (path_resolution(7)).
const maxLinks = 40

// Host resolves and opens paths that the user names.
type Host struct {
	// Own returns the absolute paths of Fumehood's state and programs, which may not exist. Code must not change them.
	Own func() []string
}

// Error classifies a failure with a file that the user named, as Invalid unless it has a kind already. op is the flag.
func Error(op string, err error) error {
	kind := sandbox.KindOf(err)
	if kind == sandbox.Internal {
		kind = sandbox.Invalid
	}
	return &sandbox.Error{Kind: kind, Op: op, Err: err}
}

// Resolve returns the absolute path of a name, without links. It need not exist. The kernel resolves its own virtual
// files, such as /dev/stdin.
func (h Host) Resolve(name string) (string, error) {
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
			at = next // opening it reports a missing or unreachable element
			continue
		}
		if links++; links > maxLinks {
			return "", Error("", &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP})
		}
		if h.writableByCode(at) && !isRoots(at) {
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

// absolute makes a path absolute, from the kernel's link-free name of the working directory. PWD may contain links that
// the shell followed; a name that begins with PWD means the same directory.
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
	case Within(name, logical):
		return filepath.Join(physical, name[len(logical):]), nil
	}
	return name, nil
}

// split splits an absolute path after its root, which is "/" or a volume's.
func split(path string) (root, rest string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	return root, strings.TrimPrefix(path, root)
}

// Open opens a file or folder for reading. It refuses pipes and devices, which may block or act when opened.
func (h Host) Open(name string) (*os.File, error) {
	path, err := h.Resolve(name)
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
	return OpenResolved(path, os.O_RDONLY, 0)
}

// OpenResolved opens a path that Resolve returned.
func OpenResolved(path string, flag int, perm os.FileMode) (*os.File, error) {
	if ofKernel(path) {
		return os.OpenFile(path, flag, perm)
	}
	return nolink.Open(path, flag, perm)
}

// Dir returns the path, without links, of a directory that exists. op is the flag that names it.
func (h Host) Dir(op, dir string) (string, error) {
	path, err := h.Resolve(dir)
	if err != nil {
		return "", Error(op, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", Error(op, err)
	}
	if !info.IsDir() {
		return "", sandbox.Invalidf(op, "%s is not a folder", path)
	}
	return path, nil
}
