package server

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// listBatch is how many entries are described before they are sent.
const listBatch = 64

// listDir serves ListDir and reports whether there was more than the limit.
func (t *tree) listDir(req *guest.ListDir, c *call) (more bool, err error) {
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
			if err := c.send(&batch[i]); err != nil {
				return false, err
			}
		}
		if err := c.wanted(); err != nil {
			return false, err
		}
	}
}

// walkFolder begins a walk of the folder at a place.
func (t *tree) walkFolder(p place, prefix string, depth int) (w *walk, err error) {
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
