package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
		e.endUnrecorded(ctx, id)
		_ = os.RemoveAll(filepath.Join(dir, string(id))) // the next start tries again
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

// endUnrecorded ends the box of a sandbox without a record, if there is one. A box that cannot be ended now ends with
// its lease.
func (e *Engine) endUnrecorded(ctx context.Context, id sandbox.ID) {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	for _, b := range e.config.Backends {
		box, err := b.Reattach(ctx, id)
		if err == nil {
			err = box.Close()
		}
		if err != nil && sandbox.KindOf(err) != sandbox.NotFound { // for example, a container engine does not run
			e.log.Debug("could not end a sandbox that was not completed", "sandbox", id, "backend", b.Name(),
				"err", err)
		}
	}
}
