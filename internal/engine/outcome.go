package engine

import (
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// outcome is the end of a run as observed from outside the process.
type outcome struct {
	cause  cause
	exited guest.Exited // valid with causeExit only
	usage  sandbox.Usage
	oom    int64       // processes killed for lack of memory
	end    sandbox.End // of a lost box, if known
	ended  bool        // end is known

	notStarted sandbox.Hint // valid with causeNotStarted only
}

// status maps an end to a status. Nothing else does.
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
	if o.oom > 0 { // the host's kernel killed the guest too
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
		return sandbox.StatusCanceled // by a request to the guest
	case o.interrupted():
		return sandbox.StatusFailed
	case o.exited.Signal != 0:
		return sandbox.StatusKilled
	}
	return sandbox.StatusFailed
}

// interrupted reports whether the program ended by SIGINT. Only the program itself can have sent it: Python does after
// an uncaught KeyboardInterrupt.
func (o *outcome) interrupted() bool { return o.exited.Signal == int32(syscall.SIGINT) }

// exitInterrupted is a shell's exit code for SIGINT.
const exitInterrupted = 128 + int(syscall.SIGINT)

// exit returns the exit code and signal. Fumehood ends programs by SIGKILL.
func (o *outcome) exit() (code, signal int) {
	switch o.cause {
	case causeNotStarted:
		return diagnose.ExitNotFound, 0
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
