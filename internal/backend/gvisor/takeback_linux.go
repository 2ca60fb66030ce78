package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// takeBack makes a box out of the folder that a dead server left, and moves it into this process's instance: the box itself knows its
// folder by the stage alone. A box whose processes are gone, or that was not complete, is cleaned up and reported as an error.
func (b *Backend) takeBack(ctx context.Context, dir string) (*Box, error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	id := sandbox.ID(filepath.Base(dir))
	rec, err := instance.ReadBox(dir)
	pids := runscOf(id)
	if err == nil && (len(pids) != 1 || len(rec.Key) != len(Box{}.key) || rec.Spec == nil) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: "gvisor: take back " + string(id), Msg: "it has ended"}
	}
	var process *pidfd.Process
	if err == nil {
		process, err = pidfd.Open(pids[0])
	}
	if err != nil {
		owner, readErr := instance.OwnerOf(dir)
		return nil, errors.Join(err, readErr, reapBox(ctx, id, dir, owner))
	}
	box := &Box{backend: b, id: id, spec: *rec.Spec, dir: in.BoxDir(id), process: process, group: cgroup.Find(rec.CgroupDirs, string(id)),
		effective: rec.Effective, began: rec.Began, emptied: rec.CgroupDirs, ended: make(chan struct{})}
	copy(box.key[:], rec.Key)
	if err := os.Rename(dir, box.dir); err != nil {
		process.Close()
		return nil, err
	}
	if err := box.release(); err != nil { // the server may have died while it saved the box
		process.Close()
		return nil, err
	}
	go box.watch()
	return box, nil
}

// reapBox ends one box of a dead owner. It has most likely ended by itself: its guest holds a lifeline or a lease.
func reapBox(ctx context.Context, id sandbox.ID, dir string, owner instance.Record) error {
	dirs := owner.CgroupDirs
	if box, err := instance.ReadBox(dir); err == nil {
		dirs = box.CgroupDirs // of a box that the owner had taken back itself
	}
	group := cgroup.Find(dirs, string(id))
	group.Kill()
	endAll(ctx, id)
	group.Kill()
	if err := group.Remove(ctx); err != nil {
		return err
	}
	if len(processesOf(id)) > 0 { // without control groups nothing else tells
		return &sandbox.Error{Op: "gvisor: end sandbox " + string(id), Msg: "its processes do not die"}
	}
	for _, d := range dirs {
		cgroup.RemoveTree(d)
	}
	return os.RemoveAll(dir)
}

// processesOf finds the processes of the host that a box consists of, but for those in which code runs: runsc names the box to all that it
// starts. The rest ends with them.
func processesOf(id sandbox.ID) []int {
	return pidfd.Find(func(argv []string) bool {
		return (argv[0] == runscName || strings.HasPrefix(argv[0], "runsc-")) && slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, string(id)) })
	})
}

// endAll ends the processes of a box, for hosts on which no control group does.
func endAll(ctx context.Context, id sandbox.ID) {
	for _, pid := range processesOf(id) {
		pidfd.KillAndWait(ctx, pid)
	}
}

// runscOf finds the runsc that was started for a box, by its command line, which nothing in the box can imitate: no process of its is
// one of the host's.
func runscOf(id sandbox.ID) (pids []int) {
	return pidfd.Find(func(argv []string) bool {
		return len(argv) > 1 && argv[0] == runscName && argv[len(argv)-1] == string(id)
	})
}
