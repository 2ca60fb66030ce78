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

// reattach makes a box from the folder that a dead server left. The moved folder is fine for the living sandbox: it knows
// its folder only through the staging area.
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
	if err := box.release(); err != nil { // the server may have died during a checkpoint
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

// processesOf finds a box's host processes by their arguments, where runsc puts the box's name. Those in which code runs are
// not listed; they end with the others. The one that we started comes first: its end ends the others. Anyone on the host can
// read a box's name and give such arguments to a process, so the process's owner is checked: we enter the first one's mount
// namespace.
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

// isAmongUs reports whether a process is in our pid namespace. A container's root may have our user id, but its pid namespace differs.
func isAmongUs(pid int) bool {
	return len(pidfd.Status(pid, "NSpid:")) == len(pidfd.Status(os.Getpid(), "NSpid:"))
}

// endAll ends a box's processes, for hosts without control groups.
func endAll(ctx context.Context, id sandbox.ID) {
	for _, pid := range processesOf(id) {
		pidfd.KillAndWait(ctx, pid)
	}
}
