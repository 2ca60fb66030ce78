package engine

import "sync/atomic"

// cause is what ended a run.
type cause uint32

const (
	causeNone       cause = iota
	causeExit             // the guest reports how it ended
	causeDeadline         // code in a context passed its deadline, or a guest did not answer for hostGrace after it
	causeCanceled         // the caller canceled it or disconnected
	causeOutput           // it wrote far past its output limit
	causeRejected         // the policy forbids the program; nothing ran
	causeNotStarted       // the program is missing or not executable; nothing ran
	causeLost             // the stream from the guest broke
)

// verdict decides the end of a run: the first claim wins.
type verdict struct{ cause atomic.Uint32 }

// claim claims that c ended the run. It returns true once.
func (v *verdict) claim(c cause) bool {
	return v.cause.CompareAndSwap(uint32(causeNone), uint32(c))
}

// of returns the claimed cause.
func (v *verdict) of() cause { return cause(v.cause.Load()) }
