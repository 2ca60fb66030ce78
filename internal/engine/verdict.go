package engine

import "sync/atomic"

// cause is what ended an execution.
type cause uint32

const (
	causeNone       cause = iota
	causeExit             // the guest says how it ended
	causeDeadline         // the guest did not answer for hostGrace after the deadline
	causeCanceled         // the caller went away or said so
	causeOutput           // it wrote far past its output limit
	causeRejected         // policy forbids the program; nothing ran
	causeNotStarted       // there is no such program, or it is none; nothing ran
	causeLost             // the stream from the guest broke
)

// verdict is the one place where the end of an execution is decided: the first claim wins, all others find it taken.
type verdict struct{ cause atomic.Uint32 }

// claim says whether c is what ended the execution. It is true for one caller, once.
func (v *verdict) claim(c cause) bool {
	return v.cause.CompareAndSwap(uint32(causeNone), uint32(c))
}

// of returns what was claimed.
func (v *verdict) of() cause { return cause(v.cause.Load()) }
