package server

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals makes the guest deaf. The kernel drops signals to pid 1 that it has no handler for, but the Go runtime installs
// one for each, and would end the process on most. Where the code runs as the guest's own user it could so end the guest.
//
// Three kinds stay: SIGCHLD, as ignoring it would reap children unseen; SIGURG, by which the runtime interrupts goroutines; and
// 32 to 34, of which it uses one to run a system call on all threads. Of the signals of faults only those are ignored that
// another process sent.
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
