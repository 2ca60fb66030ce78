package mcp

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// session is the session of one client. It has a living sandbox, which the first call that needs it makes.
type session struct {
	server *Server
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup

	client atomic.Value // string: its name

	turn chan struct{} // a lock that guards all below; its holder makes or ends the sandbox
	box  sandbox.ID    // "" before the first call that needs it
	why  string        // why the sandbox replaced another one, for the next call to report, or ""
}

// mark is the metadata of the sandboxes of sessions: the name of the client, or session.
const mark = "mcp"

const maxClient = 64 // bytes

// introduce sets the name of the client.
func (x *session) introduce(client string) {
	x.client.Store(strings.ToValidUTF8(client[:min(len(client), maxClient)], ""))
}

func newSession(s *Server) *session {
	x := &session{server: s, turn: make(chan struct{}, 1)}
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// lock takes the turn, which the caller gives back.
func (x *session) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case x.turn <- struct{}{}:
		return func() { <-x.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-x.life.Done():
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "session", Msg: "it has ended"}
	}
}

// sandbox returns the sandbox of the session, or the one of a name, which it makes if there is none. why is the reason
// if it replaced another one since the last call, else "".
func (x *session) sandbox(ctx context.Context, name string) (box *engine.Sandbox, why string, err error) {
	if name != "" {
		box, made, err := x.create(ctx, name)
		if made {
			why = "The sandbox " + name + " is new."
		}
		return box, why, err
	}
	unlock, err := x.lock(ctx)
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	if box, err = x.fill(ctx); err != nil {
		return nil, "", err
	}
	why, x.why = x.why, ""
	return box, why, nil
}

// create makes a sandbox, or finds the one of a name or id.
func (x *session) create(ctx context.Context, name string) (box *engine.Sandbox, made bool, err error) {
	living := x.server.config.Living
	if _, err := sandbox.ParseID(name); err == nil {
		box, err = x.server.config.Engine.Sandbox(ctx, living.Owner, name)
		return box, false, err
	}
	living.Name = name
	living.Spec.Metadata = maps.Clone(living.Spec.Metadata)
	if living.Spec.Metadata == nil {
		living.Spec.Metadata = map[string]string{}
	}
	client, _ := x.client.Load().(string)
	living.Spec.Metadata[mark] = cmp.Or(client, "session")
	return x.server.config.Engine.Create(ctx, living)
}

// fill returns the sandbox. It makes one unless it exists and has not ended. The caller has the turn.
func (x *session) fill(ctx context.Context) (*engine.Sandbox, error) {
	if x.life.Err() != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "session", Msg: "it has ended"}
	}
	if x.box != "" {
		box, ended := x.found(ctx)
		if ended == nil {
			return box, nil
		}
		x.why = "A new sandbox replaced the last one; its variables and files are lost: " +
			wording.Tool.Text(ended) + "."
		x.drop()
	}
	box, _, err := x.create(ctx, "")
	if err != nil {
		return nil, err
	}
	x.box = box.ID()
	return box, nil
}

// found returns the sandbox that the session has made, or why it has ended. The session holds its id, as it may keep
// that of an ended one for long. The caller has the turn.
func (x *session) found(ctx context.Context) (*engine.Sandbox, error) {
	if box := x.server.config.Engine.Living(x.box); box != nil {
		return box, box.Ended()
	}
	return x.server.config.Engine.Sandbox(ctx, x.server.config.Living.Owner, string(x.box))
}

// drop ends the sandbox. The caller has the turn.
func (x *session) drop() {
	if x.box == "" {
		return
	}
	if box := x.server.config.Engine.Living(x.box); box != nil {
		if err := box.Close(); err != nil {
			x.server.config.Log.Warn("could not remove all of a sandbox", "sandbox", x.box, "err", err)
		}
	}
	x.box = ""
}

// reset replaces the sandbox of the session, or the one of a name.
func (x *session) reset(ctx context.Context, name string) error {
	if name != "" {
		box, made, err := x.create(ctx, name)
		if err != nil || made {
			return err
		}
		if err := box.Close(); err != nil {
			return err
		}
		_, _, err = x.create(ctx, name)
		return err
	}
	unlock, err := x.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	x.drop()
	x.why = ""
	_, err = x.fill(ctx)
	return err
}

// ahead makes the sandbox in the background. After a failure, the first call tries again.
func (x *session) ahead() {
	x.work.Go(func() {
		ctx, cancel := context.WithTimeout(x.life, startTimeout)
		defer cancel()
		unlock, err := x.lock(ctx)
		if err != nil {
			return
		}
		defer unlock()
		if _, err := x.fill(ctx); err != nil {
			x.server.config.Log.Debug("could not make a sandbox ahead of its use", "err", err)
		}
	})
}

// close ends the session and its sandbox. It may be called twice.
func (x *session) close() {
	x.end()
	x.work.Wait()
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	x.drop()
}
