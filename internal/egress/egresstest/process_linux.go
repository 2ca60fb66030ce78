package egresstest

import (
	"syscall"
	"time"
)

// isolated starts a process with a network and mounts of its own, which ends with this one.
func isolated() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}

// remaining is a little less than the time until a deadline, so that the inner process says where it hangs.
func remaining(at time.Time) time.Duration {
	return max(time.Until(at)-5*time.Second, time.Second).Round(time.Second)
}
