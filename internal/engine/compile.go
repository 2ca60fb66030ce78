package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// sendTool makes the folder of the compile phase, and writes the program of ours that compiles, if it is one.
func (x *Run) sendTool(ctx context.Context) error {
	err := x.sandbox.call(ctx, func(c *client.Client) error {
		return c.MakeDir(ctx, guest.MakeDir{Path: x.BuildDir, Mode: 0o755, Parents: true})
	})
	if err != nil {
		return err
	}
	name := x.Language.Compile.Tool
	if name == "" {
		return nil
	}
	return x.sandbox.writeTool(ctx, name, x.ToolPath())
}

// writeTool writes a program of ours into the sandbox.
func (s *Sandbox) writeTool(ctx context.Context, name, path string) error {
	open := s.engine.config.Tool
	if open == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "start " + name, Msg: "this program is without " + name}
	}
	return s.call(ctx, func(c *client.Client) error {
		tool, err := open(name)
		if err != nil {
			return err
		}
		defer tool.Close()
		return c.WriteFile(ctx, guest.WriteFile{Path: path, Mode: 0o755, Truncate: true}, tool)
	})
}

// compile runs the compile phase of a language that has one. It reports whether there is a program to run; if not, the
// phase's end is that of the run. An error means that nothing was started.
func (x *Run) compile(ctx context.Context) (made bool, exited guest.Exited, err error) {
	if x.BuildDir == "" || x.resumed != nil { // an earlier server compiled it
		return true, exited, nil
	}
	rules := x.sandbox.engine.rulesOf(x.sandbox.owner)
	c := x.sandbox.newRun(job{Run: x.Compilation(rules.Max), id: sandbox.NewID(), asked: x.asked, plain: true},
		RunRequest{})
	started := c.beginNow()
	if exited, err = c.runProcess(ctx); err != nil {
		return false, exited, err
	}
	x.sandbox.forgetProcess(c.id)
	ended := c.verdict.of()
	x.compiled = &sandbox.Compiled{ExitCode: int(exited.Code), Duration: time.Since(started)}
	if ended == causeExit && exited.Code == 0 && exited.Signal == 0 && !exited.TimedOut {
		if !x.req.Background { // no answer has the output of a background one, which may live long
			x.compiled.Stdout, x.compiled.Stderr = c.output.stdout.captured(), c.output.stderr.captured()
		}
		c.output = nil // Go's runtime may keep the stopped timer of c until its time limit
		return true, exited, nil
	}
	if ended != causeExit || exited.Signal != 0 {
		x.compiled.ExitCode = -1
	}
	x.compiled.Failed = true
	x.Spec.Limits.Timeout = c.Spec.Limits.Timeout // which hints and the policy report
	x.notStarted = c.notStarted
	x.verdict.claim(ended)
	x.hearCompiler(c.output)
	return false, exited, nil
}

func (x *Run) compileFailed() bool { return x.compiled != nil && x.compiled.Failed }

// hearCompiler passes on the output of a compiler that failed.
func (x *Run) hearCompiler(from *output) {
	for _, s := range []struct {
		stream sandbox.Stream
		wrote  *capture
		into   *capture
	}{{sandbox.Stdout, from.stdout, x.output.stdout}, {sandbox.Stderr, from.stderr, x.output.stderr}} {
		c := s.wrote.captured()
		x.output.show(s.stream, c.Head)
		if c.Dropped > 0 {
			s.into.total += c.Dropped
			x.output.show(s.stream, c.Tail)
		}
	}
}

// cleanUp removes the code's file, and the folder of the compile phase, from a living sandbox.
func (x *Run) cleanUp() {
	if x.sandbox.oneShot {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	remove := func(path string) {
		err := x.sandbox.call(ctx, func(
			c *client.Client) error {
			return c.Remove(ctx, guest.Remove{Path: path, Recursive: true})
		})
		if err != nil {
			x.sandbox.engine.log.Debug("could not remove what a run needed", "sandbox", x.sandbox.id, "path", path,
				"err", err)
		}
	}
	if x.named {
		remove(x.CodePath)
	}
	if x.BuildDir != "" {
		remove(x.BuildDir)
	}
}

// toolError returns why the compile phase cannot begin, in the caller's words.
func (x *Run) toolError(err error) error {
	if sandbox.KindOf(err) == sandbox.Unavailable || sandbox.KindOf(err) == sandbox.Unsupported {
		return err
	}
	return fmt.Errorf("make the folder of the compiler: %w", x.uploadError("compiler", err))
}
