// Package rundir opens the folder of live state (locks, records, sockets, bundles, claims of ids) so that what lies there can be believed:
// nobody but root and this user can have put it there, or can lead the folder's path elsewhere. Whoever reads, locks, makes or removes
// anything below the folder opens it here first. The folder itself is found by Default.
//
// After that paths below it are as good as descriptors, which engines and gVisor could not be given anyway. In a folder that passes, only
// root and this user can rename or remove what passes: others may not write to it, or it is sticky (unlink(2), rename(2)), and what they make
// in a sticky one is theirs and fails. Nor can they move a closed folder of ours there: rename(2) of a folder to another parent needs
// the right to write to that folder. What is left is to mount something there, as FUSE and macOS let users do, with owners as they like:
// below a sticky folder nothing may be mounted. So from / on every name keeps leading where it led when it was judged.
//
// The code that sandboxes are made with, programs and source, is believed as well, wherever it lies. Judge judges it by the same walk.
//
// Two ways around it are root's to close: access lists that a mode does not show (NFSv4 and macOS; those of POSIX show in the group's
// bits), and processes of this user that are not its own, as the code of sandboxes with host_uid "shared" is, which sees no such folder.
package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Default is where live state is where nobody says otherwise: below $XDG_RUNTIME_DIR, or in /tmp, where a system has the one, and root's in
// /run: there all of it is gone after a reboot, as sandboxes are. Where only containers of an engine are sandboxes, it is in the user's cache.
// A variable that is not absolute is ignored, as the XDG Base Directory Specification has it, and so is another user's, which su leaves.
func Default(lookupEnv func(name string) (string, bool)) string {
	if runtime.GOOS != "linux" {
		if cache, err := os.UserCacheDir(); err == nil {
			return filepath.Join(cache, "glovebox", "run")
		}
		return filepath.Join(os.TempDir(), "glovebox-"+strconv.Itoa(os.Geteuid()))
	}
	if os.Geteuid() == 0 {
		return "/run/glovebox"
	}
	if dir, _ := lookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !isStrangers(dir) {
		return filepath.Join(dir, "glovebox")
	}
	return "/tmp/glovebox-" + strconv.Itoa(os.Geteuid())
}

// Open opens the folder, or fails with fs.ErrNotExist where there is none. Where others could have planted it or what lies in it, the
// error is Unavailable, names the element of the path that lets them, and its fix; nothing has been touched then. The root's name
// is the path without links.
func Open(path string) (*os.Root, error) { return open(path, false) }

// Make opens the folder as Open does. It makes what is missing of the path, closed to others.
func Make(path string) (*os.Root, error) { return open(path, true) }

// Check says what Open would complain of. That the folder is missing is no complaint.
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

// Judge says why what lies at path, a file or a folder, may not be what root or this user put there: as Open of what is above, and of itself
// that it is another user's, or that others may write to it, or to the folder even if it is sticky. It fails with fs.ErrNotExist where
// there is nothing. A group whose number is that of a trusted user counts as that user.
//
// Given is a place that is believed already, as the user named it or runs it: whoever owns it, or a folder above it, could have changed it as
// well, so these users are trusted, too, and their folders there are not judged again. "" is none.
func Judge(path, given string) error { return judge(path, given) }
