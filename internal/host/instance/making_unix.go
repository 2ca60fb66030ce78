//go:build unix

package instance

import "os"

// openMaking opens the folder of instances, whose lock is that of making one.
func openMaking(run *os.Root) (*os.File, error) { return run.Open(instancesDir) }
