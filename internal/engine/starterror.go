package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// errRejected means that the policy lists the allowed programs, and this is none.
var errRejected = errors.New("the program is not among the allowed commands")

// notStarted is a command that is missing or not executable. It ends the run as failed, as in a shell.
type notStarted struct {
	hint sandbox.Hint
	line string // a shell's message on stderr
}

func (n *notStarted) Error() string { return n.line }

// refuseStart makes a notStarted of the first word of the command.
func (x *Run) refuseStart(h sandbox.Hint, what string) *notStarted {
	return &notStarted{h, fmt.Sprintf("fumehood: %.200s: %s\n", x.Argv[0], what)}
}

// startError returns why nothing was started, in the caller's words. ENOENT may mean the program or the directory.
func (x *Run) startError(ctx context.Context, err error) error {
	if sandbox.KindOf(err) == sandbox.Unavailable {
		return err
	}
	if x.dirMissing(ctx) {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "dir",
			Msg: fmt.Sprintf("%.200q is not a directory in the sandbox", x.Dir), Err: err}
	}
	missing, name := errors.Is(err, syscall.ENOENT), sandbox.Named{Name: diagnose.PlainName(x.Argv[0])}
	var errno syscall.Errno
	errors.As(err, &errno)
	switch {
	case x.Spec.Commands != nil && (missing || errors.Is(err, syscall.EACCES)) &&
		!slices.Contains(x.Spec.Commands, path.Base(x.Argv[0])):
		return errRejected
	case missing && len(x.Programs()) > 0:
		return x.missingInterpreter()
	case missing && strings.Contains(x.Argv[0], "/"):
		return x.missingProgram(ctx)
	case missing:
		return x.refuseStart(sandbox.HintNoCommand{Name: name.Name, Path: x.ownPath()}, "command not found")
	case errno == syscall.EACCES, errno == syscall.ENOEXEC:
		return x.refuseStart(sandbox.HintNotProgram{Named: name}, "cannot execute: "+errno.Error())
	}
	return fmt.Errorf("start the program: %w", err)
}

// missingProgram is the error of a program named by its path: the file is missing, or the interpreter in its first
// line.
func (x *Run) missingProgram(ctx context.Context) error {
	program, name := x.Argv[0], sandbox.Named{Name: diagnose.PlainName(x.Argv[0])}
	if !path.IsAbs(program) {
		program = x.Dir + "/" + program
	}
	if _, err := x.sandbox.stat(ctx, program); err == nil {
		if x.hasLineEnds(program) {
			return x.refuseStart(sandbox.HintLineEnds{Named: name}, "its first line ends in a carriage return")
		}
		return x.refuseStart(sandbox.HintNoLoader{Named: name}, "interpreter or loader not found")
	}
	return x.refuseStart(sandbox.HintNoFile{Named: name}, "no such file")
}

// missingInterpreter is the error of a language that the root file system lacks. Images hold nothing of the host.
func (x *Run) missingInterpreter() error {
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "start " + x.Language.Name,
		Msg: "command not found in the sandbox: " + x.Programs()[0]}
	if set := x.ownPath(); set != "" {
		e.Fix = fmt.Sprintf("PATH was set to %.80q; leave it out, or keep /usr/bin in it", set)
		return e
	}
	onImage := x.sandbox.spec().Root.Image != "" || !sandbox.HasFeature(x.sandbox.backend, sandbox.FeatureHostRoot)
	if onImage && x.Language.Missing.Image != "" {
		e.Fixes = []sandbox.Hint{sandbox.ChooseImage(x.Language.Missing.Image)}
		return e
	}
	e.Fixes = installing(x.Language)
	return e
}

// installing has the fixes of a language that the root file system lacks.
func installing(l *sandbox.Language) []sandbox.Hint {
	return []sandbox.Hint{sandbox.FixInstall{Command: l.Missing.Fix}, sandbox.ChooseRoot()}
}

// ownPath returns PATH if it lacks a folder of the default one, or "": a caller set it, and that is the likely reason
// of a missing program.
func (x *Run) ownPath() string {
	set := strings.Split(pathIn(x.Env), ":")
	for _, folder := range strings.Split(pathIn(x.sandbox.engine.config.DefaultEnv), ":") {
		if !slices.Contains(set, folder) {
			return strings.Join(set, ":")
		}
	}
	return ""
}

// pathIn returns the value of PATH in an environment.
func pathIn(env []string) string {
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			return value
		}
	}
	return ""
}

// dirMissing reports whether the working directory is missing or no directory. It ignores other errors.
func (x *Run) dirMissing(ctx context.Context) bool {
	info, err := x.sandbox.stat(ctx, x.Dir)
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.Type != guest.FileDir
}
