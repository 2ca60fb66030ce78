package server

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals ignores signals. The kernel drops signals to pid 1 that have no handler, but the Go runtime installs
// handlers for all, and would end the process on most. Code that runs as the guest's own user could end the guest that
// way.
//
// Exceptions: SIGCHLD, as ignoring it would reap children unnoticed; SIGURG, with which the runtime interrupts
// goroutines; and 32 to 34, of which it uses one to run a system call on all threads. Fault signals are ignored only if
// another process sent them.
func ignoreSignals() {
	var all []os.Signal
	for s := syscall.Signal(1); s <= maxSignal; s++ {
		switch {
		case s == syscall.SIGCHLD, s == syscall.SIGURG, s >= 32 && s <= 34, s == syscall.SIGKILL, s == syscall.SIGSTOP:
		default:
			all = append(all, s)
		}
	}
	signal.Ignore(all...)
}
