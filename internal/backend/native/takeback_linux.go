package native

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// What the folder of a box holds: the guest's socket, and the record of a living one.
const (
	boxFile    = "box.json"
	socketFile = "s"
)

// boxRecord is what a living box needs to be taken back by another process. It holds the guest's key, so it is for its owner only.
type boxRecord struct {
	Key        []byte         `json:"key"`
	Effective  sandbox.Policy `json:"effective"`
	CgroupDirs []string       `json:"cgroup_dirs"`
	Began      time.Time      `json:"began"`
}

func (box *Box) writeRecord(cgroupDirs []string) error {
	text, err := json.Marshal(boxRecord{Key: box.key[:], Effective: box.effective, CgroupDirs: cgroupDirs, Began: time.Now()})
	if err != nil {
		return err
	}
	temporary := filepath.Join(box.dir, boxFile+".new")
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(box.dir, boxFile))
}

func readBoxRecord(dir string) (rec boxRecord, err error) {
	text, err := os.ReadFile(filepath.Join(dir, boxFile))
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	return rec, err
}

// takeBack makes a box out of the folder that a dead server left, and moves it into this process's instance. A box whose guest is gone,
// or that was not complete, is cleaned up and reported as an error.
func (b *Backend) takeBack(ctx context.Context, dir string) (_ *Box, err error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	id := sandbox.ID(filepath.Base(dir))
	rec, err := readBoxRecord(dir)
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
	if box.process, err = openProcess(pids[0]); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, box.dir); err != nil {
		box.process.close()
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
	if box, err := readBoxRecord(dir); err == nil {
		dirs = box.CgroupDirs
	}
	group := cgroup.Find(dirs, string(id))
	for _, pid := range guestsOf(id) {
		killAndWait(ctx, pid)
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
