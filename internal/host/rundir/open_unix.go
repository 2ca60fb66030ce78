//go:build unix

package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxLinks bounds the links in a path, like the kernel (path_resolution(7)).
const maxLinks = 40

const (
	toOthers = 0o077 // any right of the group and of others
	written  = 0o022 // by the group or by others
	byGroup  = 0o020
)

func open(path string, missing bool) (*os.Root, error) {
	w := walk{path: path, make: missing}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at, err := w.to(path)
	if err != nil {
		return nil, err
	}
	if err := w.own(at); err != nil {
		return nil, err
	}
	return os.OpenRoot(at.path)
}

func judge(path, given string) error {
	w := walk{path: path, code: true, trusted: map[uint32]bool{}, given: map[string]bool{}}
	if err := w.give(given); err != nil {
		return err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, err := w.to(path)
	if err == nil && at.shared() { // a sticky folder may be in the path, but its content is not trusted
		return w.isWritten(at.path)
	}
	return err
}

// walk goes from / to a folder or to code, and checks every element of the path before it reads the element.
type walk struct {
	path  string // the requested path
	make  bool   // make missing folders
	code  bool   // called by Judge; the path may be a file
	links int    // followed so far

	trusted map[uint32]bool // users besides root and this one
	given   map[string]bool // their folders
}

// give trusts the owners of a place and of the folders above it.
func (w *walk) give(place string) error {
	if place == "" {
		return nil
	}
	at, err := filepath.Abs(place)
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(at); err == nil {
			w.trusted[info.Sys().(*syscall.Stat_t).Uid] = true
			w.given[at] = info.IsDir()
		}
		if at == "/" {
			break
		}
		at = filepath.Dir(at)
	}
	return err
}

// element is a checked element of the path.
type element struct {
	path   string // without links
	mode   uint32
	uid    uint32
	dev    uint64
	names  uint64 // number of hard links
	isDir  bool
	isLink bool
	closed bool // others cannot enter it or a folder above it, so modes below are irrelevant
}

// shared reports whether others can make files in it.
func (e element) shared() bool { return e.mode&written != 0 && !e.closed }

func (w *walk) to(path string) (element, error) {
	if path == "/" {
		return w.judge(path, element{})
	}
	above, err := w.to(filepath.Dir(path))
	if err != nil {
		return element{}, err
	}
	at, err := w.judge(filepath.Join(above.path, filepath.Base(path)), above)
	if err != nil || !at.isLink {
		return at, err
	}
	// A link, such as /var/run, or /tmp and /var on macOS. It has been checked, so it belongs to root or to us.
	if w.links++; w.links > maxLinks {
		return element{}, &os.PathError{Op: "open", Path: w.path, Err: syscall.ELOOP}
	}
	target, err := os.Readlink(at.path)
	if err != nil {
		return element{}, err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(above.path, target)
	}
	return w.to(filepath.Clean(target))
}

// judge checks one element; everything above it is checked already.
func (w *walk) judge(path string, above element) (element, error) {
	at, err := w.look(path)
	if err != nil {
		return at, err
	}
	kind := at.mode & syscall.S_IFMT
	at.isLink, at.isDir = kind == syscall.S_IFLNK, kind == syscall.S_IFDIR
	at.closed = kind != syscall.S_IFREG && (above.closed || w.isOwn(at)) // a file may be hard-linked elsewhere
	if w.given[path] && at.mode&syscall.S_ISVTX == 0 {
		at.mode &^= written // its writers are trusted with the given place
	}
	switch {
	case at.uid != 0 && int(at.uid) != os.Geteuid() && !w.trusted[at.uid]:
		fix := "use another run folder"
		switch {
		case w.code:
			fix = "remove it, or use one in a folder that only root and this user can write to"
		case above.shared():
			fix = "have root remove it"
		}
		return at, w.refuse(path+" belongs to another user (id "+strconv.Itoa(int(at.uid))+")", fix)
	// even root's: others may have hard-linked it here (link(2))
	case above.shared() && (at.isLink || !at.isDir && at.names > 1):
		return at, w.refuse(path+" is a link in a folder that others may write to", "use the folder that it points to")
	case above.shared() && at.dev != above.dev:
		return at, w.refuse(path+" is mounted in a folder that others may write to", "unmount it")
	case at.isLink:
		return at, nil
	case !at.isDir && !w.code:
		return at, w.refuse(path+" is not a folder", "remove it")
	case at.shared() && !(at.isDir && at.mode&syscall.S_ISVTX != 0):
		return at, w.isWritten(path)
	}
	return at, nil
}

func (w *walk) isWritten(path string) error {
	mode := "+t"
	if w.code {
		mode = "go-w"
	}
	return w.refuse("others may write to "+path+" and could replace its content", "as its owner: chmod "+mode+" "+path)
}

// look examines an element, and makes a missing one with walk.make.
func (w *walk) look(path string) (element, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && w.make {
		// If another process has made it, check what that made.
		if err = os.Mkdir(path, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = os.Lstat(path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || err != nil && w.code {
		return element{}, err
	}
	if err != nil {
		e := w.refuse("", "make it, or let this user make it")
		e.Err = err
		return element{}, e
	}
	st := info.Sys().(*syscall.Stat_t)
	at := element{path: path, mode: uint32(st.Mode), uid: st.Uid, dev: uint64(st.Dev), names: uint64(st.Nlink)}
	// If each user has a group of the same number, as on Ubuntu, the umask is 002, and everything that a user clones
	// and builds is writable by that group.
	if w.code && (st.Gid == 0 || int(st.Gid) == os.Geteuid() || w.trusted[st.Gid]) {
		at.mode &^= byGroup
	}
	return at, nil
}

// isOwn reports whether it is this user's folder and closed to all others.
func (w *walk) isOwn(at element) bool {
	return at.isDir && int(at.uid) == os.Geteuid() && at.mode&toOthers == 0
}

// own refuses a trusted folder that other users can enter.
func (w *walk) own(at element) error {
	switch {
	case w.isOwn(at):
		return nil
	case int(at.uid) != os.Geteuid():
		return w.refuse(at.path+" belongs to root", "have root remove it")
	}
	return w.refuse(at.path+" is open to other users", "chmod 0700 "+at.path)
}

func (w *walk) refuse(msg, fix string) *sandbox.Error {
	if runtime.GOOS == "linux" && os.Geteuid() != 0 && !w.code {
		fix += ", or export XDG_RUNTIME_DIR=FOLDER, your own with mode 0700, where nobody else may write"
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "open " + w.path, Msg: msg, Fix: fix}
}

// isForeign reports whether a folder exists and belongs to another user.
func isForeign(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()
}
