package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// socketFile is the guest's socket in the folder of a box.
const socketFile = "s"

// takeBack makes a box out of the folder that a dead server left, and moves it into this process's instance. A box whose guest is gone,
// or that was not complete, is cleaned up and reported as an error.
func (b *Backend) takeBack(ctx context.Context, dir string) (_ *Box, err error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	id := sandbox.ID(filepath.Base(dir))
	rec, err := instance.ReadBox(dir)
	pids := guestsOf(id)
	if err == nil && (len(pids) != 1 || len(rec.Key) != len(Box{}.key)) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: "native: take back " + string(id), Msg: "its guest has ended"}
	}
	if err != nil {
		owner, readErr := instance.OwnerOf(dir)
		return nil, errors.Join(err, readErr, reapBox(ctx, id, dir, owner))
	}
	box := &Box{id: id, dir: in.BoxDir(id), group: cgroup.Find(rec.CgroupDirs, string(id)),
		effective: rec.Effective, began: rec.Began, emptied: rec.CgroupDirs, ended: make(chan struct{})}
	copy(box.key[:], rec.Key)
	if box.process, err = pidfd.Open(pids[0]); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, box.dir); err != nil {
		box.process.Close()
		return nil, err
	}
	go box.watch()
	return box, nil
}

// reapBox ends one box of a dead owner. Its guest has most likely ended by itself: it holds a lifeline or a lease. The groups of a box
// that the owner had taken back lie where its own record says, not where the owner made groups. What cannot be ended keeps its folder, by
// which the next recovery finds it.
func reapBox(ctx context.Context, id sandbox.ID, dir string, owner instance.Record) error {
	dirs := owner.CgroupDirs
	if box, err := instance.ReadBox(dir); err == nil {
		dirs = box.CgroupDirs
	}
	group := cgroup.Find(dirs, string(id))
	for _, pid := range guestsOf(id) {
		pidfd.KillAndWait(ctx, pid)
	}
	group.Kill()
	if err := group.Remove(ctx); err != nil {
		return err
	}
	if len(guestsOf(id)) > 0 { // without control groups nothing else tells
		return &sandbox.Error{Op: "native: end sandbox " + string(id), Msg: "its processes do not die"}
	}
	for _, d := range dirs {
		cgroup.RemoveTree(d)
	}
	return os.RemoveAll(dir)
}
