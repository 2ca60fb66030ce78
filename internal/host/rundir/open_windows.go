package rundir

import "os"

// open checks nothing: the system closes the folders of a user's profile to others.
func open(path string, missing bool) (*os.Root, error) {
	if missing {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(path)
}

func judge(path, _ string) error {
	_, err := os.Stat(path)
	return err
}

func isForeign(string) bool { return false }
