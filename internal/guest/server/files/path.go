package files

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

const (
	maxName  = 255 // NAME_MAX
	maxDepth = 256 // elements of a name in Unpack; real archives are some 30 deep
)

// place is a checked path: absolute, without NUL, and without its trailing slash, which becomes a flag. At "link/" the
// kernel would follow the link even with O_NOFOLLOW, so it never gets such a slash.
type place struct {
	path   string
	folder bool // the path ended in a slash, so only a folder will do
}

// place checks a request's path. A relative one stays below the workspace. In an absolute one the kernel resolves "..",
// which stays in the sandbox's root.
func (t *Tree) place(path string) (place, error) {
	switch {
	case path == "":
		return place{}, errEmpty
	case len(path) >= guest.MaxPath: // PATH_MAX counts a NUL at the end
		return place{}, unix.ENAMETOOLONG
	case strings.IndexByte(path, 0) >= 0:
		return place{}, errNUL
	}
	if path[0] != '/' {
		if holdsDotDot(path) {
			return place{}, errLeaves
		}
		path = t.workspace + "/" + path
	}
	trimmed := strings.TrimRight(path, "/")
	if trimmed == "" {
		return place{"/", true}, nil
	}
	return place{trimmed, len(trimmed) < len(path)}, nil
}

// split cuts off the last element, for calls that make, move or remove it.
func (p place) split() (parent, name string, err error) {
	if p.path == "/" {
		return "", "", errTheRoot
	}
	i := strings.LastIndexByte(p.path, '/')
	parent, name = p.path[:i+1], p.path[i+1:]
	if name == "." || name == ".." {
		return "", "", errBareName
	}
	return parent, name, nil
}

func holdsDotDot(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}

// checkName checks a name below a base, as for Pack and Unpack: relative, in its shortest form, and not too deep for a
// cheap walk.
func checkName(name string) error {
	switch {
	case name == "":
		return errEmpty
	case len(name) >= guest.MaxPath:
		return unix.ENAMETOOLONG
	case name[0] == '/':
		return errAbsolute
	case strings.IndexByte(name, 0) >= 0:
		return errNUL
	case strings.Count(name, "/") >= maxDepth:
		return errDeep
	}
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "..":
			return errLeaves
		case element == "" || element == ".":
			return errForm
		case len(element) > maxName:
			return unix.ENAMETOOLONG
		}
	}
	return nil
}
