package gvisor

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Promoter = (*Box)(nil)

// Reattach makes a box of a living one that its server left.
func (b *Backend) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	return b.ReattachBy(ctx, id, b.reattach)
}

func (b *Backend) reattach(dir string) (sandbox.Box, error) {
	base, rec, err := hostbox.Reattach(Name, dir, &b.Claims, mainOf)
	if err != nil {
		return nil, err
	}
	box := &Box{Box: base, backend: b}
	if rec.Spec != nil {
		box.spec = *rec.Spec
		box.spec.Lifetime = rec.Lifetime
	}
	if err := box.release(); err != nil { // the server may have died during a checkpoint
		base.Process.Close()
		return nil, err
	}
	b.KeepImage(&base.Core)
	box.watch()
	return box, nil
}

// Promote makes the box living.
func (box *Box) Promote(_ context.Context, lifetime sandbox.Lifetime) error {
	box.saving.Lock()
	defer box.saving.Unlock()
	spec := box.spec
	spec.Lifetime = lifetime
	if err := box.Box.Promote(lifetime, &spec); err != nil {
		return err
	}
	box.spec = spec
	return nil
}

// processesOf finds a box's host processes by their arguments, which contain the box's name, without those in which
// code runs; these end with the others. The first one is the one that we started: it ends the others. Anyone on the
// host can read a box's name and start a process with such arguments, so processesOf checks the owner: we enter the
// first one's mount namespace.
func processesOf(id sandbox.ID, among []int) []int {
	theirs := pidfd.FindAmong(among, func(argv []string) bool {
		return strings.HasPrefix(argv[0], "runsc-") && slices.ContainsFunc(argv,
			func(word string) bool { return strings.Contains(word, string(id)) })
	})
	theirs = slices.DeleteFunc(theirs, func(pid int) bool {
		return !pidfd.IsOfUser(pid, func(uid uint32) bool { return isSelf(uid) || hostid.IsGuest(uid) })
	})
	return append(mainOf(id, among), theirs...)
}

// mainOf finds the process of a box that we started, whose end ends the others. It ignores one that saves the box.
func mainOf(id sandbox.ID, among []int) []int {
	ours := pidfd.FindAmong(among, func(argv []string) bool {
		return argv[0] == runscName && argv[len(argv)-1] == string(id) && !slices.Contains(argv, verbSave)
	})
	return slices.DeleteFunc(ours, func(pid int) bool { return !pidfd.IsOfUser(pid, isSelf) || !isAmongUs(pid) })
}

func isSelf(uid uint32) bool { return uid == uint32(os.Geteuid()) }

// isAmongUs reports whether a process is in our pid namespace. A container's root may have our user id, but its pid
// namespace differs.
func isAmongUs(pid int) bool {
	return len(pidfd.Status(pid, "NSpid:")) == len(pidfd.Status(os.Getpid(), "NSpid:"))
}

// endAll ends a box's processes, for hosts without control groups.
func endAll(ctx context.Context, id sandbox.ID) {
	for _, pid := range processesOf(id, nil) {
		pidfd.KillAndWait(ctx, pid)
	}
}
