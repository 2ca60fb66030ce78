//go:build unix

package engine

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// forkOf is what a one-shot run needs of an interpreter that waits. It is nil if the run needs a fresh interpreter:
// with stdin, which an interpreter examines when it starts; with code in another place; or with variables that
// configure the interpreter.
func (e *Engine) forkOf(j *job) *sandbox.Fork {
	l := j.Language
	if j.plain || e.config.Warm == 0 || l == nil || l.Zygote == nil || len(j.Request.Stdin) > 0 ||
		j.Dir != sandbox.Workspace {
		return nil
	}
	env := plan.MergeEnv(j.baseEnv, l.Env)
	f := &sandbox.Fork{Zygote: l.Zygote, Argv: l.Argv(l.Programs[0], path.Join(sandbox.Workspace, l.FileName)),
		Reads: l.Zygote.Reads(env), Dir: j.Dir}
	if len(j.Spec.Layers) > 0 && l.Installer != nil { // the zygote finds them by the program's environment
		env = plan.AddPaths(env, l.Installer.Path)
	}
	own := len(j.Argv) - len(j.Request.Args)
	if !slices.Equal(f.Argv, j.Argv[:own]) || !slices.Equal(l.Zygote.Reads(env), l.Zygote.Reads(j.Env)) {
		return nil
	}
	return f
}

// park lets an interpreter wait in the box for a run that is like f: a fork of a zygote, or one that the guest starts
// in a warm box. An error other than sandbox.ErrEntered means that none waits, and that nothing has run.
func (s *Sandbox) park(ctx context.Context, f *sandbox.Fork, warm bool) error {
	forker, can := s.box.(sandbox.Forker)
	err := sandbox.ErrNoEntry
	if can {
		err = s.fork(ctx, forker, f)
	}
	forked := err == nil
	if errors.Is(err, sandbox.ErrNoEntry) && warm {
		err = s.parkInGuest(ctx, f)
	}
	if err != nil {
		return err
	}
	s.parked, s.forked = f, forked
	return nil
}

// fork puts a fork of a zygote into the box and passes it to the guest.
func (s *Sandbox) fork(ctx context.Context, forker sandbox.Forker, f *sandbox.Fork) error {
	forked, err := forker.Fork(ctx, *f)
	if err != nil {
		return err
	}
	defer forked.Close()
	conn, err := s.box.Dial(ctx)
	if err != nil {
		return err
	}
	return client.Adopt(ctx, conn, s.box.GuestKey(), guest.Adopt{PID: int32(forked.PID), Argv: f.Argv, Dir: f.Dir,
		User: s.spec().User}, client.Files{forked.Channel, forked.Stdout, forked.Stderr})
}

// parkInGuest lets the guest start an interpreter that waits in the sandbox: the code of an image must not run as a
// zygote, which has the rights of the server. It may use only so much memory, as it does so outside of a slot.
func (s *Sandbox) parkInGuest(ctx context.Context, f *sandbox.Fork) error {
	if s.spec().Root.Image == "" {
		return s.startParked(ctx, f)
	}
	before := s.measure()
	err := s.startParked(ctx, f)
	if more := s.measure().MemoryNow - before.MemoryNow; before.MemoryNow >= 0 && more > maxParkedMemory {
		err = parkedUsage(0, more)
	}
	return err
}

// startParked lets the guest start the interpreter. The folder of its script is removed once it waits.
func (s *Sandbox) startParked(ctx context.Context, f *sandbox.Fork) error {
	startup := &f.Zygote.Parked
	folder := path.Dir(startup.Path)
	return s.call(ctx, func(c *client.Client) (err error) {
		if err := c.MakeDir(ctx, guest.MakeDir{Path: folder}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Remove(ctx, guest.Remove{Path: folder, Recursive: true})) }()
		err = c.WriteFile(ctx, guest.WriteFile{Path: startup.Path}, strings.NewReader(startup.Script))
		if err != nil {
			return err
		}
		return c.Park(ctx, guest.Park{Argv: f.Argv, Env: slices.Concat(f.Reads, startup.Env), Dir: f.Dir,
			User: s.spec().User})
	})
}
