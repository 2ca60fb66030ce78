package files

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// refusal is why a file call is refused: the end of a sentence that begins with the path.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errEmpty      refusal = "is not a path: it is empty"
	errNUL        refusal = "is not a path: it contains a NUL byte"
	errLeaves     refusal = `may not hold "..": a relative path stays below its folder`
	errAbsolute   refusal = "must be relative"
	errBareName   refusal = `does not end in a name; "." and ".." cannot be made, moved or removed`
	errTheRoot    refusal = "is the root folder"
	errPseudo     refusal = "is on a kernel file system such as /proc, which is not served"
	errIrregular  refusal = "is not a regular file but a device, pipe or socket"
	errMoved      refusal = "was moved during the call"
	errMount      refusal = "is a mount point, which cannot be emptied"
	errIntoItself refusal = "cannot be moved into itself"
	errKind       refusal = "is neither a folder, a regular file nor a symbolic link"
	errTarget     refusal = "is a link without a valid target"
	errDeep       refusal = "is nested too deeply"
	errForm       refusal = "is not in its shortest form: it contains an empty element or \".\""
)

// errnoTexts explains and classifies the kernel's errors in file calls.
var errnoTexts = []struct {
	errno syscall.Errno
	kind  sandbox.Kind
	text  string
}{
	{unix.ENOENT, sandbox.NotFound, "does not exist"},
	{unix.EEXIST, sandbox.Exists, "exists already"},
	{unix.ENOTDIR, sandbox.Invalid, "is not a folder, or something above it is not"},
	{unix.EISDIR, sandbox.Invalid, "is a folder"},
	{unix.ENOTEMPTY, sandbox.Invalid, "is a folder that is not empty"},
	{unix.ELOOP, sandbox.Invalid, "contains a symbolic link, which is not followed here, or a loop of links"},
	{unix.EACCES, sandbox.Invalid, "is not accessible to the user of the sandbox"},
	{unix.EPERM, sandbox.Invalid, "is not accessible to the user of the sandbox"},
	{unix.EROFS, sandbox.Invalid, "is on a read-only file system"},
	{unix.EXDEV, sandbox.Invalid, "is on another file system; copy it instead"},
	{unix.EBUSY, sandbox.Invalid, "is a mount point or in use"},
	{unix.ENXIO, sandbox.Invalid, string(errIrregular)},
	{unix.EINVAL, sandbox.Invalid, "is not valid for this call"},
	{unix.ENAMETOOLONG, sandbox.TooLarge, "is too long: a name has at most 255 bytes, a path 4095"},
	{unix.EFBIG, sandbox.TooLarge, "would exceed the maximum size of a file"},
	{unix.ENOSPC, sandbox.Quota, "does not fit: the disk of the sandbox is full"},
	{unix.EDQUOT, sandbox.Quota, "does not fit: the disk quota is used up"},
	{unix.ETXTBSY, sandbox.Unavailable, "is a running program"},
	{unix.EAGAIN, sandbox.Unavailable, "is locked by a program"},
	{unix.EMFILE, sandbox.Unavailable, "cannot be opened: too many files are open"},
	{unix.ENFILE, sandbox.Unavailable, "cannot be opened: too many files are open"},
	{unix.ENOMEM, sandbox.Unavailable, "cannot be served: out of memory"},
	{unix.ENOSYS, sandbox.Unsupported, "cannot be served by this kernel"},
	{unix.EOPNOTSUPP, sandbox.Unsupported, "cannot be served by its file system"},
}

// fileError explains to the host why op failed at path. A Failed, and errors that end the stream itself, stay
// unchanged.
func fileError(op, path string, err error) error {
	if err == nil || err == ErrCanceled || err == ErrMalformed {
		return err
	}
	f := &guest.Failed{Op: op}
	var errno syscall.Errno
	var why refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &why):
		f.Kind, f.Msg = sandbox.Invalid, show(path)+" "+string(why)
	case errors.As(err, &errno):
		f.Errno = uint32(errno)
		f.Kind, f.Msg = classify(errno)
		f.Msg = show(path) + " " + f.Msg
	default:
		return err
	}
	return f
}

// explain is fileError for a deferred call.
func explain(err *error, op, path string) { *err = fileError(op, path, *err) }

func classify(errno syscall.Errno) (sandbox.Kind, string) {
	for _, e := range errnoTexts {
		if e.errno == errno {
			return e.kind, e.text
		}
	}
	return sandbox.Internal, "cannot be served: " + errno.Error()
}

// why returns the text of an error for a FileInfo, which has the path itself.
func why(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		_, text := classify(errno)
		return text
	}
	return err.Error()
}

// maxShown bounds how much of a path an error repeats.
const maxShown = 256

// show makes a path, whose bytes may be hostile, safe for a message.
func show(path string) string {
	more := ""
	if len(path) > maxShown {
		path, more = path[:maxShown], "..."
	}
	quoted := strconv.Quote(path)
	if quoted == `"`+path+`"` && path != "" {
		return path + more
	}
	return quoted + more
}
