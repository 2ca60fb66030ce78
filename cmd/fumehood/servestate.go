package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/e2bapi"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/internal/store"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The content of the state folder. Only one server can open it, because the store has one owner.
const (
	storeDir = "sandboxes" // records of living sandboxes
	logsDir  = "logs"      // logs of their runs
)

// state outlives the server.
type state struct {
	*store.Store
	logs string // folder of the logs of runs
}

// openState opens the state folder; "" is the default one.
func (a *app) openState(ctx context.Context, dir string) (*state, error) {
	if dir == "" {
		if dir = a.env().StateDir(); dir == "" {
			return nil, invalid("--state-dir", "the state of living sandboxes needs a home",
				"set HOME, or name a folder: --state-dir DIR")
		}
	}
	dir, err := makeState(dir)
	if err != nil {
		return nil, err
	}
	var s *store.Store
	if err := a.afterPredecessor(ctx, "the state folder "+terminal.VisibleName(dir), func() (err error) {
		s, err = store.Open(filepath.Join(dir, storeDir))
		return err
	}); err != nil {
		return nil, err
	}
	if old := filepath.Join(dir, "sandboxes.db"); exists(old) {
		a.warn("%s is of an earlier version and is not read; its sandboxes end when their leases are over: rm %s",
			terminal.VisibleName(old), terminal.VisibleName(old))
	}
	return &state{s, filepath.Join(dir, logsDir)}, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// tokens returns the access tokens of sandboxes for E2B's clients. Without a state they end with the server.
func (s *state) tokens() (*e2bapi.Tokens, error) {
	if s == nil {
		return e2bapi.NewTokens(), nil
	}
	root, err := os.OpenRoot(filepath.Dir(s.logs))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return e2bapi.OpenTokens(root)
}

// makeState makes a missing folder, without access for others, and refuses one that others can write to: its records
// determine the rights of sandboxes. It returns the path without links.
func makeState(dir string) (string, error) {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		if err := rundir.Judge(dir, ""); err != nil {
			return "", err
		}
		if err = os.Mkdir(filepath.Join(dir, logsDir), 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return "", &sandbox.Error{Kind: sandbox.Unavailable, Op: "--state-dir", Err: err,
			Fix: "make the folder writable, or name another: --state-dir DIR"}
	}
	return dir, nil
}

// takeOver resumes the living sandboxes of the previous server, and reports those that are gone.
func (a *app) takeOver(ctx context.Context, e *openedEngine, kept *state) error {
	records, damaged, err := kept.Load()
	if err != nil {
		return err
	}
	var unread []sandbox.ID
	for _, d := range damaged {
		unread = append(unread, d.ID)
		a.logger().Warn("the record of a living sandbox cannot be read; it ends by itself", "sandbox", d.ID, "error",
			d.Err)
	}
	for _, gone := range e.Resume(ctx, records, unread...) {
		a.warn("the sandbox %s is gone: %s", cmp.Or(gone.Name, string(gone.ID)), gone.Reason)
	}
	return nil
}
