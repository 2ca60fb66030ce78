package files

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// walk visits a folder and everything below it, depth first, in the order of names, and follows no link. Its memory and
// descriptors are bounded by heldNames and maxOpenLevels. It does not enter paths longer than guest.MaxPath bytes.
type walk struct {
	tree    *Tree
	descent descent
	frames  []frame // one for each level
	path    []byte  // of the current folder, with a slash at the end unless it is empty
	depth   int     // maximum number of levels
	held    int     // cost of the names in all frames
	reader  folderReader
	below   int    // an open folder that the next step enters, or -1
	enter   string // its name
}

// frame is the remainder of one level.
type frame struct {
	names   []string // not yet visited
	cost    int
	last    string // the last visited name
	more    bool   // the folder may contain names after these
	pathLen int    // of walk.path
}

// newWalk begins a walk of the folder open in fd, and takes it over. Paths begin with prefix, which is empty or ends in
// a slash. depth 1 visits only the folder, 0 everything below it.
func (t *Tree) newWalk(fd int, prefix string, depth int) (*walk, error) {
	w := &walk{tree: t, path: []byte(prefix), depth: depth, below: -1}
	if err := w.descent.push(fd, ""); err != nil {
		return nil, err
	}
	w.frames = []frame{{more: true, pathLen: len(prefix)}}
	return w, nil
}

func (w *walk) close() {
	w.descent.close()
	if w.below >= 0 {
		unix.Close(w.below)
	}
}

// step visits the next entry. Until the next step it has that name in folder fd(). ok is false at the end.
func (w *walk) step() (info guest.FileInfo, name string, ok bool, err error) {
	if w.below >= 0 {
		if err := w.descend(); err != nil {
			return info, "", false, err
		}
	}
	for {
		f := &w.frames[len(w.frames)-1]
		switch {
		case len(f.names) > 0:
		case f.more:
			if err := w.fill(f); err != nil {
				return info, "", false, err
			}
			continue
		case len(w.frames) == 1:
			return info, "", false, nil
		default:
			if err := w.ascend(); err != nil {
				return info, "", false, err
			}
			continue
		}
		name = f.names[0]
		f.names[0] = ""
		f.names = f.names[1:]
		f.cost -= nameCost + len(name)
		w.held -= nameCost + len(name)
		f.last = name
		info, err = describe(w.fd(), name, string(w.path)+name)
		if err == unix.ENOENT {
			continue // removed since the folder was read
		}
		if info.Type == guest.FileDir && (w.depth == 0 || len(w.frames) < w.depth) {
			info.Err = w.openBelow(name)
		}
		return info, name, true, nil
	}
}

func (w *walk) fd() int { return w.descent.fd() }

// openBelow opens the folder that the next step enters, or returns why it cannot.
func (w *walk) openBelow(name string) string {
	if len(w.path)+len(name)+1+maxName >= guest.MaxPath {
		return string(errDeep)
	}
	fd, err := w.tree.openServed(w.fd(), name, openFolder, 0, within)
	if err != nil {
		return why(err)
	}
	w.below, w.enter = fd, name
	return ""
}

func (w *walk) descend() error {
	fd := w.below
	w.below = -1
	if err := w.descent.push(fd, w.enter); err != nil {
		return err
	}
	w.path = append(append(w.path, w.enter...), '/')
	w.frames = append(w.frames, frame{more: true, pathLen: len(w.path)})
	return nil
}

func (w *walk) ascend() error {
	if err := w.descent.pop(); err != nil {
		return err
	}
	w.frames = w.frames[:len(w.frames)-1]
	w.path = w.path[:w.frames[len(w.frames)-1].pathLen]
	return nil
}

// fill reads the current folder's next names. To make room it drops names of the folders above, from the top, which
// will be read again.
func (w *walk) fill(f *frame) error {
	names, cost, more, err := w.reader.after(w.fd(), f.last, heldNames)
	if err != nil {
		return err
	}
	f.names, f.cost, f.more = names, cost, more
	w.held += cost
	for i := 0; i < len(w.frames)-1 && w.held > heldNames; i++ {
		above := &w.frames[i]
		if above.cost == 0 {
			continue
		}
		w.held -= above.cost
		above.names, above.cost, above.more = nil, 0, true
	}
	return nil
}
