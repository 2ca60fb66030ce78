package files

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// listBatch is how many entries are described before they are sent.
const listBatch = 64

func (t *Tree) ListDir(req *guest.ListDir, c Call) (answer guest.Message, err error) {
	defer explain(&err, "list", req.Path)
	more, err := t.list(req, c)
	return &guest.Done{More: more}, err
}

// list sends the entries of a folder and reports whether there were more than the limit.
func (t *Tree) list(req *guest.ListDir, c Call) (more bool, err error) {
	p, err := t.place(req.Path)
	if err != nil {
		return false, err
	}
	limit := int(req.Limit)
	if limit == 0 {
		limit = guest.DefaultListLimit
	}
	w, err := t.walkFolder(p, "", int(max(req.Depth, 1)))
	if err != nil {
		return false, err
	}
	defer w.close()
	batch := make([]guest.FileInfo, 0, listBatch)
	for {
		batch = batch[:0]
		err := t.threads.do(func() error {
			for len(batch) < min(limit+1, listBatch) {
				info, _, ok, err := w.step()
				if err != nil || !ok {
					return err
				}
				batch = append(batch, info)
			}
			return nil
		})
		if err != nil || len(batch) == 0 {
			return false, err
		}
		for i := range batch {
			if limit == 0 {
				return true, nil
			}
			limit--
			if err := c.Send(&batch[i]); err != nil {
				return false, err
			}
		}
		if err := c.Wanted(); err != nil {
			return false, err
		}
	}
}

// walkFolder begins a walk of the folder at a place.
func (t *Tree) walkFolder(p place, prefix string, depth int) (w *walk, err error) {
	err = t.threads.do(func() error {
		fd, err := t.openServed(unix.AT_FDCWD, p.path, openFolder&^unix.O_NOFOLLOW, 0, 0)
		if err != nil {
			return err
		}
		w, err = t.newWalk(fd, prefix, depth)
		return err
	})
	return w, err
}
