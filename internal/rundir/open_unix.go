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

	"github.com/glovebox-dev/glovebox/sandbox"
)

// maxLinks bounds the links on the way, as the kernel's own walk does (path_resolution(7)).
const maxLinks = 40

// Bits of st_mode.
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
	if err == nil && at.shared() { // a sticky folder: it is good to pass through, and not to take all that is in it
		return w.isWritten(at.path)
	}
	return err
}

// walk goes from / to a folder or to code, and judges every element on the way by itself, before it looks at what is in it.
type walk struct {
	path  string // that was asked for
	make  bool   // what is missing
	code  bool   // it is asked for by Judge, and may be a file
	links int    // followed so far

	trusted map[uint32]bool // users beside root and this one
	given   map[string]bool // folders that are theirs
}

// give trusts those who own a place or what is above it.
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

// element is one that has been judged.
type element struct {
	path   string // without links
	mode   uint32
	uid    uint32
	dev    uint64
	names  uint64 // hard links
	isDir  bool
	isLink bool
	closed bool // to all others, by it or by what is above it: what the modes below it say is nothing to them
}

// shared says whether others may make something in it.
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
	// A link, as /var/run is, or /tmp and /var on macOS. What leads to it is judged, so it is root's or ours like anything else.
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

// judge looks at one element, of which everything above is judged.
func (w *walk) judge(path string, above element) (element, error) {
	at, err := w.look(path)
	if err != nil {
		return at, err
	}
	kind := at.mode & syscall.S_IFMT
	at.isLink, at.isDir = kind == syscall.S_IFLNK, kind == syscall.S_IFDIR
	at.closed = kind != syscall.S_IFREG && (above.closed || w.isOwn(at)) // a file may have another name elsewhere
	if w.given[path] && at.mode&syscall.S_ISVTX == 0 {
		at.mode &^= written // who may write to it is believed with what is given
	}
	switch {
	case at.uid != 0 && int(at.uid) != os.Geteuid() && !w.trusted[at.uid]:
		fix := "name another run folder"
		switch {
		case w.code:
			fix = "remove it, or use one that lies where only root and this user may write"
		case above.shared():
			fix = "have root remove it"
		}
		return at, w.refuse(path+" belongs to another user (id "+strconv.Itoa(int(at.uid))+")", fix)
	case above.shared() && (at.isLink || !at.isDir && at.names > 1): // even root's: others may have given it this second name (link(2))
		return at, w.refuse(path+" is a link in a folder that others may write to", "name the folder that it leads to")
	case above.shared() && at.dev != above.dev:
		return at, w.refuse(path+" is mounted in a folder that others may write to", "unmount it")
	case at.isLink:
		return at, nil
	case !at.isDir && !w.code:
		return at, w.refuse(path+" is no folder", "remove it")
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
	return w.refuse("others may write to "+path+", and put in place of what is there what they like", "have its owner run chmod "+mode+" "+path)
}

// look says what is there, and makes it where that is wanted.
func (w *walk) look(path string) (element, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && w.make {
		if err = os.Mkdir(path, 0o700); err == nil || errors.Is(err, fs.ErrExist) { // somebody was quicker, and is judged
			info, err = os.Lstat(path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || err != nil && w.code {
		return element{}, err
	}
	if err != nil {
		e := w.refuse("", "see to it that this user may make it")
		e.Err = err
		return element{}, e
	}
	st := info.Sys().(*syscall.Stat_t)
	at := element{path: path, mode: uint32(st.Mode), uid: st.Uid, dev: uint64(st.Dev), names: uint64(st.Nlink)}
	// Where each user has a group of the same number, as on Ubuntu, umask is 002, and what a user clones and builds is writable by it as a
	// matter of course.
	if w.code && (st.Gid == 0 || int(st.Gid) == os.Geteuid() || w.trusted[st.Gid]) {
		at.mode &^= byGroup
	}
	return at, nil
}

// isOwn says whether it is a folder of this user's that is closed to all others.
func (w *walk) isOwn(at element) bool {
	return at.isDir && int(at.uid) == os.Geteuid() && at.mode&toOthers == 0
}

// own refuses a folder that is trusted and still not this user's alone.
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
		fix += ", or set XDG_RUNTIME_DIR to a folder of yours with mode 0700 that lies where nobody else may write"
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "open " + w.path, Msg: msg, Fix: fix}
}

// isStrangers says whether a folder is there and belongs to somebody else.
func isStrangers(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()
}
