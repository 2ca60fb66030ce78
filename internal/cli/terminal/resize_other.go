//go:build !unix

package terminal

import "os"

// Resizes returns a channel that never receives: the system does not report sizes.
func Resizes() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
