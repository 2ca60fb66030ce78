package main

import (
	"context"
	"errors"
	"os"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// execute runs one request in a sandbox of its own, passes its output on and reports its end.
func (a *app) execute(ctx context.Context, run engine.Run, f *sandboxFlags) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	packager, err := a.packager(&f.packageFlags)
	if err != nil {
		return err
	}
	checks, err := f.checks()
	if err != nil {
		return err
	}
	e, err := a.openEngine(engine.Config{Slots: 1, Queue: -1, Checks: checks, Packages: packager})
	if err != nil {
		return err
	}
	defer func() { // remove the sandbox before we exit, also after an interrupt
		if closeErr := e.Close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
	}()
	if err := e.chooseForImage(ctx, &run); err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(ctx, e.Engine, run)
	}
	var out *filesOut
	if f.out != "" {
		if out, err = a.openFilesOut(f.out, f.overwrite); err != nil {
			return err
		}
		defer out.close()
	}
	e.recoverAside(ctx)
	shown := a.newShow()
	run.Request.Progress = shown.progress
	if !a.json {
		run.Request.Output = shown.output
	}
	result, err := e.Run(ctx, run)
	shown.end()
	if err != nil {
		out.unmake()
		return workdirError(err, f.workdir)
	}
	if result.Status == sandbox.StatusRejected {
		out.unmake()
	}
	if !a.json {
		err = shown.rest(result)
		result.Hints = shown.asShown(result.Hints)
	}
	return a.finish(result, out, f, err)
}

// finish writes the files, reports the result and returns the exit code as an error. failed is the error of passing the output on.
func (a *app) finish(result *sandbox.Result, out *filesOut, f *sandboxFlags, failed error) error {
	left := a.handOut(result, out, f.out)
	if a.json {
		answered := *result
		answered.Skipped = left
		failed = a.printJSON(answer.New(answer.CommandLine, &answered, api.Sections...))
	}
	if errors.Is(failed, errReaderGone) { // as head does: there is nobody to report to
		return exitError(exitCanceled)
	}
	a.reportFindings(result.Findings, result.Status, f.mode != "")
	a.report(result)
	switch {
	case failed != nil:
		return failed
	}
	code := exitCodeOf(result)
	if code == 0 && f.strictFiles && len(left) > 0 {
		code = exitFailure
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// workdirError names the flag of a missing working directory, and suggests --workspace for a directory of this host.
func workdirError(err error, workdir string) error {
	var e *sandbox.Error
	if workdir == "" || !errors.As(err, &e) || e.Op != "dir" {
		return err
	}
	fixed := *e
	fixed.Op, fixed.Err = "--workdir", nil
	if info, err := os.Stat(workdir); err == nil && info.IsDir() {
		fixed.Fix = "to use the directory of this host: --workspace " + quoteWords([]string{workdir})
	}
	return &fixed
}

// exitCodeOf is the program's exit code, or the one for how it was ended.
func exitCodeOf(r *sandbox.Result) int {
	switch r.Status {
	case sandbox.StatusSucceeded:
		return 0
	case sandbox.StatusFailed:
		if r.ExitCode > 0 {
			return r.ExitCode
		}
		if r.Signal > 0 { // SIGINT, as of an uncaught KeyboardInterrupt
			return 128 + r.Signal // as a shell has it
		}
		return 1
	case sandbox.StatusTimeout:
		return exitTimeout
	case sandbox.StatusRejected:
		return exitRejected
	case sandbox.StatusCanceled:
		return exitCanceled
	case sandbox.StatusOutOfMemory, sandbox.StatusOutputLimit, sandbox.StatusKilled:
		return exitKilled
	}
	return exitFailure // lost
}
