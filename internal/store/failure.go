package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/sandbox"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// refuse is the error for a file that is not a sound store. Nothing was written to it.
func refuse(path, msg string) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "store", Msg: fmt.Sprintf("%s cannot be used: %s", path, msg),
		Fix: wayOut(path)}
}

func newer(path string, found int64) *sandbox.Error {
	e := refuse(path, fmt.Sprintf("a newer Fumehood wrote it (version %d; this one knows %d)", found, version))
	e.Fix = "use that Fumehood, or " + e.Fix
	return e
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

// failed explains an error of SQLite or of the file system; nil returns nil.
func failed(step, path string, err error) error {
	if err == nil {
		return nil
	}
	var ours *sandbox.Error
	if errors.As(err, &ours) {
		return err
	}
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "store: " + step + " " + path, Err: err}
	switch primaryCode(err) {
	case codes.SQLITE_NOTADB:
		return refuse(path, "it is not a store")
	case codes.SQLITE_CORRUPT:
		return refuse(path, "it is damaged: "+err.Error())
	case codes.SQLITE_ERROR: // a statement that SQLite cannot run: it has no such table
		if step == "open" || step == "load" {
			return refuse(path, "it is damaged: "+err.Error())
		}
		e.Kind = sandbox.Internal
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		e.Kind, e.Msg, e.Err = sandbox.Busy, "another process has it open", nil
		e.Fix = "stop the other server, or give this one another state folder"
	case codes.SQLITE_FULL:
		e.Fix = "free space in its folder"
	case codes.SQLITE_READONLY: // or its header says that only a newer SQLite may write it
		e.Fix = "make the file and its folder writable for the server; if they are, " + wayOut(path)
	case codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		e.Fix = "make the file and its folder writable for the server"
	case codes.SQLITE_IOERR:
		e.Fix = "check that its folder is writable, and the disk full or failing"
	case 0:
		switch {
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
			e.Fix = "free space in its folder"
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
			e.Fix = "make the file and its folder writable for the server"
		default:
			e.Kind = sandbox.KindOf(err)
		}
	}
	return e
}

// primaryCode is SQLite's result code without its extension, or 0.
func primaryCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
