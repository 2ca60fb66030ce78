package instance

import "os"

// openMaking opens a file beside the folder: a folder itself cannot be locked here.
func openMaking(run *os.Root) (*os.File, error) {
	return run.OpenFile(instancesDir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
}
