package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
)

// Change is a change of a file below a watched folder.
type Change struct {
	Kind ChangeKind
	Path string // relative to the folder; "." is the folder itself. "" if Lost
	Lost bool   // changes were lost, as too many came at once
}

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreate ChangeKind = "create"
	ChangeWrite  ChangeKind = "write"
	ChangeRemove ChangeKind = "remove"
	ChangeRename ChangeKind = "rename" // away from Path; a new name in a watched folder is created
	ChangeMode   ChangeKind = "chmod"  // of mode, owner or times
)

var changeKinds = map[guest.ChangeOp]ChangeKind{guest.ChangeCreate: ChangeCreate, guest.ChangeWrite: ChangeWrite,
	guest.ChangeRemove: ChangeRemove, guest.ChangeRename: ChangeRename, guest.ChangeMode: ChangeMode}

// Watch reports changes below a folder until ctx ends, take returns an error, or the sandbox ends. It calls ready once
// all later changes are seen. Only its beginning and end count as use of the sandbox. A connection to the sandbox that
// breaks may lose changes, which Watch reports as Lost. A sandbox can be watched a few times at once (inotify(7),
// max_user_instances).
func (s *Sandbox) Watch(ctx context.Context, folder string, recursive bool, ready func(),
	take func(Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	if err := s.touch(); err != nil {
		return err
	}
	full, err := plan.FilePath(folder)
	if err != nil {
		return err
	}
	defer func() { _ = s.touch() }() // an error means that it has ended, which is reported below
	var failed error
	begun := false
	err = s.call(ctx, func(c *client.Client) error {
		return c.Watch(ctx, guest.Watch{Path: full, Recursive: recursive}, func() {
			if !begun {
				begun = true
				ready()
			} else if failed = take(Change{Lost: true}); failed != nil {
				cancel()
			}
		}, func(m guest.Changed) error {
			if m.Overflow {
				return take(Change{Lost: true})
			}
			return take(Change{Kind: changeKinds[m.Op], Path: m.Path})
		})
	})
	if ended := s.Ended(); ended != nil {
		return ended
	}
	if failed != nil {
		return failed
	}
	return fileError(err)
}
