package engine

import (
	"syscall"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// outcome is all that is known of the end of an execution, from outside the sandboxed process.
type outcome struct {
	cause  cause
	exited guest.Exited // of meaning with causeExit only
	usage  sandbox.Usage
	oom    int64       // processes that the kernel killed for want of memory during the execution, as the host counts them
	end    sandbox.End // of a lost box, where the host saw one
	ended  bool        // end is known

	notStarted sandbox.Hint // of meaning with causeNotStarted only
}

// status is the one place where an end becomes a status.
func (o *outcome) status() sandbox.Status {
	switch o.cause {
	case causeCanceled:
		return sandbox.StatusCanceled
	case causeDeadline:
		return sandbox.StatusTimeout
	case causeOutput:
		return sandbox.StatusOutputLimit
	case causeRejected:
		return sandbox.StatusRejected
	case causeNotStarted:
		return sandbox.StatusFailed
	case causeExit:
		return o.exitStatus()
	}
	if o.oom > 0 { // the guest went with the processes that the kernel killed
		return sandbox.StatusOutOfMemory
	}
	return sandbox.StatusLost
}

func (o *outcome) exitStatus() sandbox.Status {
	switch {
	case o.exited.TimedOut:
		return sandbox.StatusTimeout
	case o.exited.Signal == 0 && o.exited.Code == 0:
		return sandbox.StatusSucceeded
	case o.oom > 0:
		return sandbox.StatusOutOfMemory
	case o.exited.Signal != 0 && o.exited.Signaled:
		return sandbox.StatusCanceled // somebody asked the guest to end it
	case o.interrupted():
		return sandbox.StatusFailed
	case o.exited.Signal != 0:
		return sandbox.StatusKilled
	}
	return sandbox.StatusFailed
}

// interrupted says whether the program ended by SIGINT. Nobody sends that to a sandbox, so the program did: Python does after an uncaught
// KeyboardInterrupt.
func (o *outcome) interrupted() bool { return o.exited.Signal == int32(syscall.SIGINT) }

// exitInterrupted is what a shell reports for a program that ended by SIGINT.
const exitInterrupted = 128 + int(syscall.SIGINT)

// exit is the exit code and signal. Ends that Glovebox brought about are by SIGKILL.
func (o *outcome) exit() (code, signal int) {
	switch o.cause {
	case causeNotStarted:
		return o.notStarted.ExitCode, 0
	case causeExit:
		if o.exitStatus() == sandbox.StatusFailed && o.interrupted() {
			return exitInterrupted, int(o.exited.Signal)
		}
		return int(o.exited.Code), int(o.exited.Signal)
	case causeDeadline, causeOutput, causeCanceled:
		return -1, int(syscall.SIGKILL)
	}
	return -1, 0
}
