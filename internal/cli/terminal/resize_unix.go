//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// Resizes returns a channel that receives a value when the size of the terminal may have changed, until stop is called.
func Resizes() (changed <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
