//go:build unix

package engine

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// fork starts the program in a fork of a waiting interpreter. It returns neither a process nor an error if the caller
// should start the program normally: then nothing has run.
func (x *Run) fork(ctx context.Context, f *sandbox.Fork) (*client.Process, error) {
	forker, can := x.sandbox.box.(sandbox.Forker)
	if !can || f == nil || x.sandbox.guests {
		return nil, nil
	}
	forked, err := forker.Fork(ctx, *f)
	if errors.Is(err, sandbox.ErrEntered) {
		return nil, err
	}
	if err != nil {
		if !errors.Is(err, sandbox.ErrNoZygote) && ctx.Err() == nil {
			x.sandbox.engine.log.Debug("a waiting interpreter could not be used", "sandbox", x.sandbox.id, "err", err)
		}
		return nil, nil
	}
	defer forked.Close()
	process, err := x.adopt(ctx, forked)
	if err == nil {
		x.notify(RunForked, nil, nil)
	}
	return process, err
}

// forkOf is the request of a one-shot run to a zygote. It is nil if the run needs a fresh interpreter: with stdin,
// which an interpreter examines when it starts; with code in another place; or with variables that configure the
// interpreter.
func (e *Engine) forkOf(j *job) *sandbox.Fork {
	l := j.Language
	if j.plain || e.config.Warm == 0 || l == nil || l.Zygote == nil || len(j.Request.Stdin) > 0 ||
		j.Dir != sandbox.Workspace {
		return nil
	}
	env := plan.MergeEnv(j.baseEnv, l.Env)
	f := &sandbox.Fork{Zygote: l.Zygote, Argv: l.Argv(l.Programs[0], path.Join(sandbox.Workspace, l.FileName)),
		Reads: l.Zygote.Reads(env), Args: j.Request.Args, Dir: j.Dir}
	if len(j.Spec.Layers) > 0 && l.Installer != nil { // the zygote finds them by the program's environment
		env = plan.AddPaths(env, l.Installer.Path)
	}
	own := len(j.Argv) - len(f.Args)
	if !slices.Equal(f.Argv, j.Argv[:own]) || !slices.Equal(l.Zygote.Reads(env), l.Zygote.Reads(j.Env)) {
		return nil
	}
	f.Env = append([]string{guest.EnvExecution + "=" + string(j.id)}, j.Env...)
	return f
}

// park puts a fork of a waiting interpreter into a warm box, for a run that is like f, or lets the guest start an
// interpreter that waits. Without an error the box can be used.
func (s *Sandbox) park(ctx context.Context, f *sandbox.Fork) error {
	if f == nil {
		return nil
	}
	err := sandbox.ErrNoEntry
	if forker, can := s.box.(sandbox.Forker); can {
		err = forker.Park(ctx, *f)
	}
	switch {
	case err == nil:
		s.parked = f
	case errors.Is(err, sandbox.ErrEntered):
		return err
	case errors.Is(err, sandbox.ErrNoEntry):
		if err := s.parkInGuest(ctx, f); err != nil {
			s.engine.log.Debug("no interpreter waits in a warm box", "sandbox", s.id, "err", err)
			return nil
		}
		s.parked, s.guests = f, true
	}
	return nil
}

// parkInGuest lets the guest start an interpreter that waits in the sandbox: the code of an image must not run as a
// zygote, which has the rights of the server. The folder of its script is removed once it waits.
func (s *Sandbox) parkInGuest(ctx context.Context, f *sandbox.Fork) error {
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

// adopt passes a forked process to the guest, and starts its program.
func (x *Run) adopt(ctx context.Context, forked *sandbox.Forked) (*client.Process, error) {
	conn, err := x.sandbox.box.Dial(ctx)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer null.Close()
	m := guest.Adopt{ID: string(x.id), PID: int32(forked.PID), Argv: x.Argv, Deadline: x.Spec.Limits.Timeout,
		KillSignal: int32(syscall.SIGTERM), Grace: termGrace, Buffer: outputBuffer}
	c, err := x.sandbox.connect(ctx)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	process, err := c.Adopt(ctx, conn, x.sandbox.box.GuestKey(), m, client.Files{null, forked.Stdout, forked.Stderr})
	if err != nil {
		return nil, err
	}
	if err := forked.Go(); err != nil {
		process.Close()
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "let the program begin", Err: err}
	}
	return process, nil
}
