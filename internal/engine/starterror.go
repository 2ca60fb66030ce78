package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// errRejected is why nothing was started where a policy lists the programs that may be executed: the root holds no other.
var errRejected = errors.New("the program is not among the allowed commands")

// startError says in the caller's words why nothing was started. ENOENT may be the program's or the directory's: the guest knows.
func (x *execution) startError(ctx context.Context, err error) error {
	if sandbox.KindOf(err) == sandbox.Unavailable {
		return err
	}
	if x.dirMissing(ctx) {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "dir", Msg: fmt.Sprintf("%.200q is not a directory in the sandbox", x.Dir), Err: err}
	}
	missing := errors.Is(err, syscall.ENOENT)
	var errno syscall.Errno
	errors.As(err, &errno)
	switch {
	case x.Spec.Commands != nil && (missing || errors.Is(err, syscall.EACCES)):
		return errRejected
	case missing && x.language != nil:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "start " + x.Language,
			Msg: "the root has no " + x.Programs[0], Fix: x.pathFix(x.languageFix())}
	case missing && strings.Contains(x.Argv[0], "/"):
		return x.missingProgram(ctx)
	case missing:
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "command",
			Msg: fmt.Sprintf("the root has no program %.200q on its PATH", x.Argv[0]), Fix: x.pathFix("")}
	case errno == syscall.EACCES, errno == syscall.ENOEXEC:
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "command", Msg: fmt.Sprintf("%.200q cannot be executed", x.Argv[0]), Err: errno,
			Fix: "make it executable, a script with a first line such as #!/bin/sh; or name the interpreter before it, as in sh script.sh"}
	}
	return fmt.Errorf("start the program: %w", err)
}

// missingProgram tells of a program that was named by its path: there is no such file, or not the interpreter that its first line names.
func (x *execution) missingProgram(ctx context.Context) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: "command"}
	program := x.Argv[0]
	if !path.IsAbs(program) {
		program = x.Dir + "/" + program
	}
	_, err := x.client.Stat(ctx, guest.Stat{Path: program, Follow: true})
	switch {
	case err == nil:
		e.Msg = fmt.Sprintf("the root has no interpreter or loader that %.200q asks for", x.Argv[0])
		e.Fix = "look at its first line, after #!"
	case path.IsAbs(x.Argv[0]):
		e.Msg = fmt.Sprintf("the root has no %.200q", x.Argv[0])
	default:
		e.Msg = fmt.Sprintf("there is no %.200q in %s", x.Argv[0], x.Dir)
		e.Fix = SendFile
	}
	return e
}

// languageFix says how to get the interpreter: into an image nothing of the host comes.
func (x *execution) languageFix() string {
	for _, b := range x.live.engine.config.Backends {
		if b.Name() == x.live.backend && !sandbox.HasFeature(b, sandbox.FeatureHostRoot) && x.language.Image != "" {
			return "name an image that holds it, such as --image " + x.language.Image
		}
	}
	return x.language.Fix
}

// pathFix is the fix where a program was not found on the PATH: if the caller has replaced that, it is the likely reason.
func (x *execution) pathFix(otherwise string) string {
	i := slices.IndexFunc(x.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if i < 0 || slices.Contains(x.live.engine.config.DefaultEnv, x.Env[i]) {
		return otherwise
	}
	return fmt.Sprintf("PATH was set to %.80q; leave it out, or keep /usr/bin in it", strings.TrimPrefix(x.Env[i], "PATH="))
}

// dirMissing says whether the working directory is none. A directory that the guest cannot describe is left to the first error.
func (x *execution) dirMissing(ctx context.Context) bool {
	info, err := x.client.Stat(ctx, guest.Stat{Path: x.Dir, Follow: true})
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.Type != guest.FileDir
}
