package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/hostbox"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// reattach makes a box out of the folder that a dead server left: the box itself knows its folder by the staging area alone.
func (b *Backend) reattach(ctx context.Context, dir string) (*Box, error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	if err := b.inheritRoots(in, filepath.Dir(filepath.Dir(dir))); err != nil {
		return nil, err
	}
	base, rec, err := hostbox.Reattach(ctx, Name, in, dir, processesOf)
	if err != nil {
		return nil, err
	}
	box := &Box{Box: base, backend: b}
	if rec.Spec != nil {
		box.spec = *rec.Spec
	}
	if err := box.release(); err != nil { // the server may have died while it saved the box
		base.Process.Close()
		return nil, err
	}
	box.watch()
	return box, nil
}

// reapBox ends one box of a dead owner.
func reapBox(ctx context.Context, _ sandbox.ID, dir string, owner instance.Record) error {
	return hostbox.Reap(ctx, Name, dir, owner, processesOf)
}

// processesOf finds the processes of the host that a box consists of, but for those in which code runs, which end with them: runsc names
// the box to all that it starts. The one that we started comes first: with it the others end. Anybody on the host can read a box's name and
// give a process of theirs such arguments, so whose process it is counts: we enter the mount namespace of the first.
func processesOf(id sandbox.ID) []int {
	ours := pidfd.Find(func(argv []string) bool { return argv[0] == runscName && argv[len(argv)-1] == string(id) })
	theirs := pidfd.Find(func(argv []string) bool {
		return strings.HasPrefix(argv[0], "runsc-") && slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, string(id)) })
	})
	ours = slices.DeleteFunc(ours, func(pid int) bool { return !pidfd.IsOfUser(pid, isSelf) || !isAmongUs(pid) })
	theirs = slices.DeleteFunc(theirs, func(pid int) bool {
		return !pidfd.IsOfUser(pid, func(uid uint32) bool { return isSelf(uid) || hostid.IsGuest(uid) })
	})
	return append(ours, theirs...)
}

func isSelf(uid uint32) bool { return uid == uint32(os.Geteuid()) }

// isAmongUs says whether a process is in the pid namespace that this one is in, as no container's is: their root may have our user id.
func isAmongUs(pid int) bool {
	return len(pidfd.Status(pid, "NSpid:")) == len(pidfd.Status(os.Getpid(), "NSpid:"))
}

// endAll ends the processes of a box, for hosts on which no control group does.
func endAll(ctx context.Context, id sandbox.ID) {
	for _, pid := range processesOf(id) {
		pidfd.KillAndWait(ctx, pid)
	}
}
