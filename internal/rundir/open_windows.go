package rundir

import (
	"io/fs"
	"os"
)

// open judges nothing: the folders of a user's profile are closed to others by the system.
func open(path string, missing bool) (*os.Root, error) {
	if missing {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(path)
}

// IsOurs says whether nobody else may write to what is described, as is so in a user's profile.
func IsOurs(fs.FileInfo) bool { return true }

func isStrangers(string) bool { return false }
