// Package rundir opens the folder of live state (locks, records, sockets, bundles, claims of ids) so that its content
// can be trusted: only root and this user can have put it there, and nobody else can redirect the folder's path. Open
// the folder here before reading, locking, making or removing anything below it. Default finds it.
//
// Afterwards paths below it are as safe as descriptors, which cannot be given to engines and gVisor. In a checked
// folder only root and this user can rename or remove checked entries: others cannot write to it, or it is sticky
// (unlink(2), rename(2)), and what they make in a sticky one belongs to them and fails the check. They cannot move a
// closed folder of ours there either: rename(2) of a folder to another parent needs write permission on that folder.
// They could still mount something there with arbitrary owners, as FUSE and macOS permit; so mounts below a sticky
// folder are refused. So every name keeps leading where it led when it was checked.
//
// The programs and source that make sandboxes are trusted too. Judge checks them by the same walk.
//
// Two gaps are root's to close: access lists that a mode does not show (NFSv4 and macOS; POSIX lists show in the
// group's bits), and foreign processes with this user's id, such as the code of sandboxes with host_uid "shared", which
// cannot see such a folder.
package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Default is the default folder of live state: below $XDG_RUNTIME_DIR, or in /tmp, on systems with the former, and
// root's in /run: all vanish at a reboot, like sandboxes. If all sandboxes are containers of an engine, it is in the
// user's cache. As the XDG Base Directory Specification requires, a relative variable is ignored; so is another user's
// folder, which su leaves.
func Default(lookupEnv func(name string) (string, bool)) string {
	if runtime.GOOS != "linux" {
		if cache, err := os.UserCacheDir(); err == nil {
			return filepath.Join(cache, "fumehood", "run")
		}
		return filepath.Join(os.TempDir(), "fumehood-"+strconv.Itoa(os.Geteuid()))
	}
	if os.Geteuid() == 0 {
		return "/run/fumehood"
	}
	if dir, _ := lookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !isForeign(dir) {
		return filepath.Join(dir, "fumehood")
	}
	return "/tmp/fumehood-" + strconv.Itoa(os.Geteuid())
}

// Open opens the folder, or fails with fs.ErrNotExist. If others could have planted it or its content, the error is
// Unavailable, names the responsible element of the path, and has the fix; nothing has been touched. The root's name is
// the path without links.
func Open(path string) (*os.Root, error) { return open(path, false) }

// Make is Open, but makes missing folders, closed to others.
func Make(path string) (*os.Root, error) { return open(path, true) }

// Check returns the error that Open would return, or nil for a missing folder.
func Check(path string) error {
	root, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Close()
}

// Judge reports why the file or folder at path may not be what root or this user put there. It makes Open's checks of
// everything above, and refuses a path of another user's, or one that others can write to, even in a sticky folder. It
// fails with fs.ErrNotExist if nothing is there. A group whose number is that of a trusted user counts as that user.
//
// given is a place that is trusted already, as the user named it or runs it: its owner, and owners of the folders above
// it, could have changed it too. So these users are trusted, and their folders there are not checked again. "" is none.
func Judge(path, given string) error { return judge(path, given) }
