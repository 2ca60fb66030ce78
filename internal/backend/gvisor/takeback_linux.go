package gvisor

import (
	"context"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/hostbox"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// takeBack makes a box out of the folder that a dead server left: the box itself knows its folder by the stage alone.
func (b *Backend) takeBack(ctx context.Context, dir string) (*Box, error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	base, rec, err := hostbox.TakeBack(ctx, Name, in, dir, processesOf)
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
// the box to all that it starts. The one that we started comes first: with it the others end. Nothing in the box can imitate them, as no
// process of its is one of the host's.
func processesOf(id sandbox.ID) []int {
	ours := pidfd.Find(func(argv []string) bool { return argv[0] == runscName && argv[len(argv)-1] == string(id) })
	theirs := pidfd.Find(func(argv []string) bool {
		return strings.HasPrefix(argv[0], "runsc-") && slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, string(id)) })
	})
	return append(ours, theirs...)
}

// endAll ends the processes of a box, for hosts on which no control group does.
func endAll(ctx context.Context, id sandbox.ID) {
	for _, pid := range processesOf(id) {
		pidfd.KillAndWait(ctx, pid)
	}
}
