package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// refuse is the error for a path that is not a sound store. Nothing was written to it.
func refuse(path, msg string) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "store", Msg: fmt.Sprintf("%s cannot be used: %s", path, msg),
		Fix: wayOut(path)}
}

// newerError is the error for a sound record of a version that this program does not know.
type newerError struct{ found int }

func (e *newerError) Error() string {
	return fmt.Sprintf("a newer Fumehood wrote it (version %d; this one knows %d)", e.found, version)
}

func (e *newerError) refuse(path string) *sandbox.Error {
	refused := refuse(path, e.Error())
	refused.Fix = "use that Fumehood, or " + refused.Fix
	return refused
}

// wayOut is a command that fixes the failure, and its cost.
func wayOut(path string) string {
	quoted := quote(path)
	return "move it away: mv " + quoted + " " + quote(path+".old") +
		" ; the server then forgets the names of living sandboxes, which end when their leases are over"
}

// quote makes a word of a POSIX shell.
func quote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// failed explains an error of the file system; nil returns nil.
func failed(step, path string, err error) error {
	if err == nil {
		return nil
	}
	var ours *sandbox.Error
	if errors.As(err, &ours) {
		return err
	}
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "store: " + step + " " + path, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		e.Fix = "free space on its disk"
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		e.Fix = "make the folder writable for the server"
	case errors.Is(err, syscall.EIO):
		e.Fix = "check whether its disk fails"
	default:
		e.Kind = sandbox.KindOf(err)
	}
	return e
}
