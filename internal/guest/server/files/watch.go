package files

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

const (
	maxWatches  = 10_000 // folders that one call watches; changes in others are reported as lost
	watchBytes  = 16 << 10
	watchEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM |
		unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
)

// Watch serves Watch, until the host cancels it. Paths are relative to the folder, which itself is ".". The kernel
// limits the queue for a slow host (fs.inotify.max_queued_events), and reports dropped events.
func (t *Tree) Watch(req *guest.Watch, c Call) (_ guest.Message, err error) {
	defer explain(&err, "watch", req.Path)
	p, err := t.place(req.Path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	w := &watcher{tree: t, c: c, root: p, recursive: req.Recursive, fd: fd, paths: make(map[int32]string)}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	stop := c.OnCancel(func() { events.SetReadDeadline(time.Unix(1, 0)) }) // ends the read in run
	defer stop()
	if err := w.begin(); err != nil {
		return nil, err
	}
	if err := c.Send(&guest.Done{}); err != nil {
		return nil, err
	}
	return nil, w.run(events)
}

// watcher follows the changes below one folder. inotify(7) watches single folders, so each has its own watch.
type watcher struct {
	tree      *Tree
	c         Call
	root      place
	recursive bool
	fd        int
	paths     map[int32]string // of the watched folders, "" the root
	rootWatch int32
	lost      bool // a folder is not watched, and the host does not know yet
	last      guest.Changed
}

func (w *watcher) begin() error {
	if err := w.tree.threads.do(func() error {
		dir, err := w.tree.openServed(unix.AT_FDCWD, w.root.path, openPath|unix.O_DIRECTORY, 0, 0)
		if err != nil {
			return err
		}
		unix.Close(dir)
		wd, err := unix.InotifyAddWatch(w.fd, w.root.path, watchEvents)
		w.rootWatch = int32(wd)
		w.paths[w.rootWatch] = ""
		return err
	}); err != nil {
		return err
	}
	if !w.recursive {
		return nil
	}
	return w.addBelow("", false)
}

// add watches one folder below the root. A link put there meanwhile may mislead it, but not out of the sandbox.
func (w *watcher) add(path string) {
	if len(w.paths) >= maxWatches {
		w.lost = true
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, w.root.path+"/"+path, watchEvents|unix.IN_DONT_FOLLOW)
	switch err {
	case nil:
		w.paths[int32(wd)] = path
	case unix.ENOENT, unix.ENOTDIR: // gone again
	default: // no permission, a path over PATH_MAX, or more watches than the system allows
		w.lost = true
	}
}

// addBelow watches all folders below a watched one. Each is watched before it is read, so nothing made in it is missed,
// and some is reported twice. With report, existing entries are reported as made.
func (w *watcher) addBelow(path string, report bool) error {
	prefix := path
	if path != "" {
		prefix += "/"
	}
	walk, err := w.tree.walkFolder(place{path: w.root.path + "/" + path}, prefix, 0)
	if err != nil {
		if path == "" {
			return err
		}
		return nil // gone again
	}
	defer walk.close()
	for {
		batch := make([]string, 0, listBatch)
		err := w.tree.threads.do(func() error {
			for len(batch) < listBatch {
				info, _, ok, err := walk.step()
				if err != nil || !ok {
					return err
				}
				if info.Type == guest.FileDir {
					w.add(info.Path)
				}
				batch = append(batch, info.Path)
			}
			return nil
		})
		for _, found := range batch {
			if !report {
				break
			}
			if err := w.changed(guest.ChangeCreate, found); err != nil {
				return err
			}
		}
		if err == errMoved {
			w.lost = true
			return nil
		}
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := w.c.Wanted(); err != nil {
			return err
		}
	}
}

// run reports changes until the host stops the call.
func (w *watcher) run(events *os.File) error {
	buf := make([]byte, watchBytes)
	for {
		if w.lost {
			w.lost = false
			if err := w.c.Send(&guest.Changed{Overflow: true}); err != nil {
				return err
			}
		}
		n, err := events.Read(buf)
		if err != nil {
			return ErrCanceled
		}
		w.last = guest.Changed{}
		if err := w.events(buf[:n]); err != nil {
			return err
		}
	}
}

// events reports the result of one read: records of watch (4 bytes), mask (4), cookie (4), length (4) and name.
func (w *watcher) events(buf []byte) error {
	const head = unix.SizeofInotifyEvent
	for len(buf) >= head {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		length := int(binary.NativeEndian.Uint32(buf[12:]))
		if length > len(buf)-head {
			return nil
		}
		name := buf[head : head+length]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		buf = buf[head+length:]
		if err := w.event(wd, mask, string(name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) event(wd int32, mask uint32, name string) error {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.lost = true
		if w.recursive {
			return w.addBelow("", false) // folders may have been made unnoticed
		}
		return nil
	}
	folder, known := w.paths[wd]
	if !known {
		return nil
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.paths, wd)
		return nil
	}
	path := name
	switch {
	case name == "" && wd != w.rootWatch:
		return nil // the parent folder reports the same
	case name == "":
		path = "."
	case folder != "":
		path = folder + "/" + name
	}
	isFolder := mask&unix.IN_ISDIR != 0 && name != ""
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return w.appeared(path, isFolder)
	case mask&(unix.IN_MOVED_FROM|unix.IN_MOVE_SELF) != 0:
		if isFolder {
			w.drop(path)
		}
		return w.changed(guest.ChangeRename, path)
	case mask&(unix.IN_DELETE|unix.IN_DELETE_SELF) != 0:
		return w.changed(guest.ChangeRemove, path)
	case mask&unix.IN_MODIFY != 0:
		return w.changed(guest.ChangeWrite, path)
	case mask&unix.IN_ATTRIB != 0:
		return w.changed(guest.ChangeMode, path)
	}
	return nil
}

// appeared reports a new entry, and a folder's existing content.
func (w *watcher) appeared(path string, isFolder bool) error {
	if err := w.changed(guest.ChangeCreate, path); err != nil || !isFolder || !w.recursive {
		return err
	}
	w.tree.threads.do(func() error { w.add(path); return nil })
	return w.addBelow(path, true)
}

// drop forgets the folders at and below a path, which have moved away.
func (w *watcher) drop(path string) {
	for wd, p := range w.paths {
		if p == path || strings.HasPrefix(p, path+"/") {
			unix.InotifyRmWatch(w.fd, uint32(wd))
			delete(w.paths, wd)
		}
	}
}

// changed reports one change; repetitions of the last one are skipped.
func (w *watcher) changed(op guest.ChangeOp, path string) error {
	m := guest.Changed{Op: op, Path: path}
	if m == w.last {
		return nil
	}
	w.last = m
	return w.c.Send(&m)
}
