package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// buildAside gives the compile phase a folder of this execution alone: several may run in one sandbox.
func (j *job) buildAside() {
	if j.BuildDir != "" {
		j.BuildIn(j.BuildDir + "/" + string(j.id))
	}
}

// resumes reports whether the execution began under an earlier server.
func (x *execution) resumes() bool { return x.stays != nil && x.stays.resumed != nil }

// sendTool makes the folder of the compile phase, and writes the program of ours that compiles, if it is one.
func (x *execution) sendTool(ctx context.Context) error {
	if err := x.client.MakeDir(ctx, guest.MakeDir{Path: x.BuildDir, Mode: 0o755, Parents: true}); err != nil {
		return err
	}
	name := x.Language.Compile.Tool
	if name == "" {
		return nil
	}
	return x.live.engine.writeTool(ctx, x.client, name, x.ToolPath())
}

// writeTool writes a program of ours into a sandbox.
func (e *Engine) writeTool(ctx context.Context, c *client.Client, name, path string) error {
	if e.config.Tool == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "start " + name, Msg: "this program is without " + name}
	}
	tool, err := e.config.Tool(name)
	if err != nil {
		return err
	}
	defer tool.Close()
	return c.WriteFile(ctx, guest.WriteFile{Path: path, Mode: 0o755, Truncate: true}, tool)
}

// compile runs the compile phase, if there is one. It reports whether there is a program to run; if not, the phase's end is that of the
// execution. An error means that nothing was started.
func (x *execution) compile(ctx context.Context) (made bool, exited guest.Exited, err error) {
	if x.BuildDir == "" || x.resumes() { // an earlier server compiled it
		return true, exited, nil
	}
	c := &execution{job: job{Execution: x.Compilation(x.live.engine.config.Max), id: sandbox.NewID(), asked: x.asked, plain: true}, live: x.live, client: x.client}
	c.output = newOutput(c.Spec.Limits.OutputBytes, nil)
	started := time.Now()
	if exited, err = c.run(ctx); err != nil {
		return false, exited, err
	}
	ended := c.verdict.of()
	if x.stays != nil {
		x.stays.sandbox.leaveProcess(c.id, ended)
	}
	x.compiled = &sandbox.Compiled{ExitCode: int(exited.Code), Duration: time.Since(started)}
	if ended == causeExit && exited.Code == 0 && exited.Signal == 0 && !exited.TimedOut {
		x.compiled.Stdout, x.compiled.Stderr = c.output.stdout.captured(), c.output.stderr.captured()
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

func (x *execution) compileFailed() bool { return x.compiled != nil && x.compiled.Failed }

// hearCompiler passes on what a compiler that failed wrote.
func (x *execution) hearCompiler(from *output) {
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

// cleanUp removes the code's file, and the folder of the compile phase, from a sandbox that goes on.
func (x *execution) cleanUp() {
	if x.stays == nil || !x.named && x.BuildDir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	remove := func(path string) {
		if err := x.client.Remove(ctx, guest.Remove{Path: path, Recursive: true}); err != nil {
			x.live.engine.log.Debug("could not remove what an execution needed", "sandbox", x.live.id, "path", path, "err", err)
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
func (x *execution) toolError(err error) error {
	if sandbox.KindOf(err) == sandbox.Unavailable || sandbox.KindOf(err) == sandbox.Unsupported {
		return err
	}
	return fmt.Errorf("make the folder of the compiler: %w", x.uploadError("compiler", err))
}
