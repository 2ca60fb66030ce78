package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// sharedDirs are directories of the host that no code may write to; what is below them may be somebody's own.
var sharedDirs = []string{"/home", "/opt", "/root", "/run", "/usr", "/var"}

// systemDirs are system directories with all below them. On most hosts the first are links into /usr.
var systemDirs = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/boot", "/etc"}

var kernelDirs = []string{"/dev", "/proc", "/sys"}

// checkWorkspace returns the absolute path of a directory that the code may write to, or why it may not.
func (a *app) checkWorkspace(dir string) (string, error) {
	refuse := func(msg, fix string) (string, error) {
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "--workspace", Msg: dir + " " + msg, Fix: fix}
	}
	path, err := a.named(dir)
	if err != nil {
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "--workspace", Err: err}
	}
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return refuse("does not exist", "mkdir -p "+quoteWords([]string{dir}))
	case err != nil:
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "--workspace", Err: err}
	case !info.IsDir():
		return refuse("is a file, not a directory", "to send a file: --file "+quoteWords([]string{dir}))
	}
	if msg, fix := a.notForCode(path); msg != "" {
		return refuse(msg, fix)
	}
	return path, nil
}

// notForCode returns why code may not write to a link-free path, and the fix; "" if it may. It refuses all places of our own state, even
// if they do not exist yet: code that writes our configuration weakens the next run, and code that writes the guest or its source becomes
// the next run's guest.
func (a *app) notForCode(path string) (msg, fix string) {
	const another = "name a directory that the code may change"
	if path == filepath.Dir(path) {
		return "is the root of this host", another
	}
	if slices.Contains(sharedDirs, path) || slices.ContainsFunc(systemDirs, func(system string) bool { return within(path, resolved(system)) }) {
		return "is a system directory", another
	}
	if ofKernel(path) {
		return "belongs to the kernel", another
	}
	for _, own := range a.ownPlaces() {
		inItsPlace := filepath.Join(resolved(filepath.Dir(own)), filepath.Base(own)) // of a link, protect both the link and its target
		for _, own := range []string{inItsPlace, resolved(own)} {
			if within(own, path) || within(path, own) {
				return "holds Fumehood's own state or programs (" + own + ")", "name another directory, such as one below it"
			}
		}
	}
	return "", ""
}

func ofKernel(path string) bool {
	return slices.ContainsFunc(kernelDirs, func(dir string) bool { return within(path, dir) })
}

// resolved is a path without links, as far as it exists yet.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// within reports whether path is dir or below it. Both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+string(filepath.Separator))
}
