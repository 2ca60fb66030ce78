package hostfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// sharedDirs are directories that code must not write to. A directory below one of them may be a user's own.
var sharedDirs = []string{"/home", "/opt", "/root", "/run", "/usr", "/var"}

// systemDirs are directories that code must not write to at any depth. On most hosts the first are links into /usr.
var systemDirs = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/boot", "/etc"}

var kernelDirs = []string{"/dev", "/proc", "/sys"}

// Workspace returns the path, without links, of a directory for --workspace, or refuses it.
func (h Host) Workspace(dir string) (string, error) {
	refuse := func(msg, fix string) (string, error) {
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "--workspace", Msg: dir + " " + msg, Fix: fix}
	}
	path, err := h.Resolve(dir)
	if err != nil {
		return "", Error("--workspace", err)
	}
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return refuse("does not exist", "mkdir -p "+terminal.Quote(dir))
	case err != nil:
		return "", Error("--workspace", err)
	case !info.IsDir():
		return refuse("is a file, not a directory", "to upload a file: --file "+terminal.Quote(dir))
	}
	if msg, fix := h.protected(path); msg != "" {
		return refuse(msg, fix)
	}
	return path, nil
}

// Mount parses SRC:DST or SRC:DST:rw, resolves SRC, and refuses a writable one that code must not write to.
func (h Host) Mount(text string) (sandbox.Mount, error) {
	var m sandbox.Mount
	parts := strings.Split(text, ":")
	if len(parts) == 3 && (parts[2] == "rw" || parts[2] == "ro") {
		m.Writable = parts[2] == "rw"
		parts = parts[:2]
	}
	if len(parts) != 2 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
		return m, &sandbox.Error{Kind: sandbox.Invalid, Op: "--mount",
			Msg: fmt.Sprintf("%.80q is not SRC:DST or SRC:DST:rw, with DST an absolute path", text),
			Fix: "--mount ./data:/data"}
	}
	var err error
	if m.Source, err = h.Resolve(parts[0]); err == nil {
		_, err = os.Lstat(m.Source)
	}
	if err != nil {
		return m, Error("--mount", err)
	}
	if msg, fix := h.protected(m.Source); m.Writable && msg != "" {
		return m, &sandbox.Error{Kind: sandbox.Invalid, Op: "--mount", Msg: parts[0] + " " + msg, Fix: fix}
	}
	m.Target = parts[1]
	return m, nil
}

// protected returns the reason why code must not write to a link-free path, and the fix; "" if it may. It protects
// Fumehood's own places even before they exist: code that writes the configuration weakens the next run, and code that
// writes the guest or its source becomes the next run's guest.
func (h Host) protected(path string) (msg, fix string) {
	const another = "name a directory that the code may change"
	system := func(dir string) bool { return Within(path, resolved(dir)) }
	switch {
	case path == filepath.Dir(path):
		return "is the root of this host", another
	case slices.Contains(sharedDirs, path) || slices.ContainsFunc(systemDirs, system):
		return "is a system directory", another
	case ofKernel(path):
		return "belongs to the kernel", another
	}
	for _, own := range h.Own() {
		link := filepath.Join(resolved(filepath.Dir(own)), filepath.Base(own))
		for _, own := range []string{link, resolved(own)} { // protect a link and its target
			if Within(own, path) || Within(path, own) {
				return "contains Fumehood's own state or programs (" + own + ")",
					"name another directory, such as one below it"
			}
		}
	}
	return "", ""
}

// writableByCode reports whether code can write to a directory: neither it nor one above it is protected.
func (h Host) writableByCode(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if msg, _ := h.protected(dir); msg == "" {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func ofKernel(path string) bool {
	return slices.ContainsFunc(kernelDirs, func(dir string) bool { return Within(path, dir) })
}

// resolved returns a path without links. Elements that do not exist stay as they are.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// Within reports whether path is dir or below it. Both are clean and absolute.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+string(filepath.Separator))
}
