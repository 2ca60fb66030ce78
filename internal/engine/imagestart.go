package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the start command of an image.
const (
	imageReadyTimeout = 60 * time.Second // until its check succeeds
	checkTimeout      = 10 * time.Second // of one attempt
	checkFirst        = 10 * time.Millisecond
	checkPause        = 500 * time.Millisecond // between attempts, at most; it doubles from checkFirst
	saidTimeout       = 500 * time.Millisecond // to read the output that the guest keeps
	maxSaid           = 2 << 10                // bytes of output in an error
)

// Names of the processes of an image's start command in its guest. No run has such an id.
const (
	startProcess = "start"
	checkProcess = "ready"
)

// startImage starts the command of the sandbox's image, and waits until it is ready. The command runs on, whatever runs
// and servers come after. The guest keeps the end of its output.
func (s *Sandbox) startImage(ctx context.Context) error {
	start := s.spec().Root.Start
	if start == nil {
		return nil
	}
	all, cancel := context.WithTimeout(ctx, imageReadyTimeout)
	defer cancel()
	m, err := s.startMessage(startProcess, start.Command)
	if err != nil {
		return err
	}
	process, err := s.startProcess(all, m, false)
	if err != nil {
		return startError("the start command cannot run", err)
	}
	process.Close()
	said := ""
	for pause := checkFirst; start.Port != 0 || start.Ready != nil; pause = min(2*pause, checkPause) {
		ready, checked, err := s.isReady(all, start)
		if ready || err != nil && all.Err() == nil {
			return err
		}
		if checked != "" {
			said = "; the check wrote: " + checked
		}
		exited, ended, err := s.startEnded(all)
		switch {
		case ended && exited.Code != 0: // one that succeeds has left a server behind
			return startError("the start command ended before it was ready: "+exitText(exited)+s.startSaid(ctx), nil)
		case err != nil && all.Err() == nil:
			return err
		case !pauseUntil(all, time.Now().Add(pause)):
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			late := fmt.Sprintf("the start command was not ready in %v", imageReadyTimeout)
			return startError(late+s.startSaid(ctx)+said, nil)
		}
	}
	return nil
}

// startError returns the error about the start command of an image. Invalid: another sandbox of it fails, too. An
// error of the guest stays as it is.
func startError(msg string, err error) error {
	if err != nil && sandbox.KindOf(err) == sandbox.Unavailable {
		return err
	}
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: "image", Msg: msg, Err: err,
		Fix: "try the command in a sandbox of the image that the template is built from"}
	if errors.Is(err, syscall.ENOENT) {
		e.Fix = `build the template with a command that the image has; without a shell, a list of words: ["/server"]`
	}
	return e
}

func exitText(e guest.Exited) string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// startMessage returns the message that starts a command of the image.
func (s *Sandbox) startMessage(id string, command []string) (m guest.Start, err error) {
	rules, spec := s.engine.rulesOf(s.owner), s.spec()
	p, err := rules.Run(sandbox.Request{Command: command}, spec)
	if err != nil {
		return m, err
	}
	p = s.trustingRun(p)
	return guest.Start{ID: id, Argv: p.Argv, Env: p.Env, Dir: p.Dir, User: spec.User, Discard: true}, nil
}

// isReady makes one attempt of the check. It returns what a failed command wrote.
func (s *Sandbox) isReady(ctx context.Context, start *sandbox.Start) (ready bool, said string, err error) {
	if start.Port != 0 {
		err := s.call(ctx, func(c *client.Client) error {
			conn, err := c.Dial(ctx, start.Port)
			if err == nil {
				_ = conn.Close() // the server sees a client that leaves
			}
			return err
		})
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ETIMEDOUT) {
			return false, "", nil
		}
		return err == nil, "", err
	}
	m, err := s.startMessage(checkProcess, start.Ready)
	if err != nil {
		return false, "", err
	}
	m.Deadline, m.KillTree = checkTimeout, true
	process, err := s.startProcess(ctx, m, false)
	if err != nil {
		return false, "", startError("the ready check cannot run", err)
	}
	defer s.forgetCheck()
	exited, said, err := s.outputOf(ctx, process)
	return err == nil && exited.Code == 0 && !exited.TimedOut, said, err
}

// forgetCheck lets the guest drop the record of an attempt, so that the next one has its name.
func (s *Sandbox) forgetCheck() {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	// The next start reports an error.
	_ = s.call(ctx, func(c *client.Client) error { return c.Ack(ctx, guest.Ack{ID: checkProcess, Exit: true}) })
}

// outputOf follows a process until it ends, or ctx does, and returns the end of its output.
func (s *Sandbox) outputOf(ctx context.Context, p *client.Process) (exited guest.Exited, said string, err error) {
	kept := newCapture(2 * maxSaid)
	exited, err = s.follow(ctx, p, func(*client.Process) {}, func(_ *client.Process, m guest.Output) error {
		kept.write(m.Data)
		return nil
	}, true)
	text := kept.captured()
	all := append(text.Head, text.Tail...)
	return exited, strings.TrimSpace(strings.ToValidUTF8(string(all[max(len(all)-maxSaid, 0):]), "?")), err
}

// startEnded reports whether the start command has ended, and how.
func (s *Sandbox) startEnded(ctx context.Context) (exited guest.Exited, ended bool, err error) {
	err = s.call(ctx, func(c *client.Client) error {
		list, err := c.List(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.ID == startProcess && p.Exited {
				ended = true
				exited, err = c.Wait(ctx, startProcess)
			}
		}
		return err
	})
	return exited, ended, err
}

// startSaid returns the end of the output of the start command, for an error.
func (s *Sandbox) startSaid(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, saidTimeout)
	defer cancel()
	p, err := s.attach(ctx, guest.Attach{ID: startProcess})
	if err != nil {
		return ""
	}
	if _, said, _ := s.outputOf(ctx, p); said != "" { // it may run on
		return "; it wrote: " + said
	}
	return "; it wrote nothing"
}
