package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// sweep ends the sandboxes that an earlier server had not put on record when it was killed: no client knows their ids.
// It finds them by the folders of their logs, which are made before the boxes. It also removes the packages of ended
// sandboxes.
func (e *Engine) sweep(ctx context.Context, unread []sandbox.ID) {
	dir, err := e.state.folder()
	if err != nil {
		return
	}
	for _, id := range e.unrecorded(dir, unread) {
		end, logs := e.enderOf(id), filepath.Join(dir, string(id))
		remove := func() error { return os.RemoveAll(logs) }
		if err := end(ctx); err != nil { // for example, a container engine does not run
			e.log.Warn("could not end a sandbox without a record; it is tried again", "sandbox", id, "err", err)
			e.closeLater(func() error { return end(e.stop) }, remove)
			continue
		}
		_ = remove() // the next start tries again
	}
	dir = filepath.Join(dir, packagesDir)
	for _, id := range e.unrecorded(dir, unread) {
		_ = os.RemoveAll(filepath.Join(dir, string(id))) // the next start tries again
	}
}

// unrecorded returns the ids in a folder of the state that no sandbox has.
func (e *Engine) unrecorded(dir string, unread []sandbox.ID) (ids []sandbox.ID) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.log.Warn("could not look for what is left of sandboxes", "err", err)
	}
	e.living.mu.Lock()
	defer e.living.mu.Unlock()
	for _, entry := range entries {
		id, err := sandbox.ParseID(entry.Name())
		if err == nil && e.living.byID[id] == nil && !slices.Contains(unread, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// enderOf returns a function that ends the box of a sandbox without a record, if there is one. After an error, there
// may still be one, and a further call tries again.
func (e *Engine) enderOf(id sandbox.ID) func(context.Context) error {
	var found sandbox.Box
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
		defer cancel()
		var errs []error
		for _, b := range e.config.Backends {
			if found != nil {
				break
			}
			box, err := b.Reattach(ctx, id)
			kind := sandbox.KindOf(err)
			switch {
			case err == nil:
				found = box
			case kind != sandbox.NotFound && kind != sandbox.Exists: // a running process owns such a box
				errs = append(errs, err)
			}
		}
		if found != nil {
			return found.Close()
		}
		return errors.Join(errs...)
	}
}

// removeLogs removes the logs of an ended sandbox. If its box did not close, they stay until it does: by them, the next
// server finds it.
func (s *Sandbox) removeLogs() error {
	if s.unclosed == nil {
		return s.logs.Remove()
	}
	s.engine.closeLater(s.unclosed, s.logs.Remove)
	return nil
}

// closeLater calls end until it succeeds, and then remove, in a goroutine that ends when the engine stops.
func (e *Engine) closeLater(end, remove func() error) {
	e.goAside(func() {
		for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
			select {
			case <-time.After(pause):
			case <-e.stop.Done():
				return
			}
			if end() == nil {
				_ = remove() // the next start tries again
				return
			}
		}
	})
}
