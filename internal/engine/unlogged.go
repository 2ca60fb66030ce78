package engine

import "time"

// writeLate writes a finished log that could not be written, for example on a full disk: the next server would report
// another end.
func (x *Run) writeLate() {
	s := x.sandbox
	for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
		select {
		case <-time.After(pause):
		case <-s.life.Done():
			return
		}
		if x.log.Sync() == nil {
			break
		}
	}
	if x.context == nil {
		s.forgetProcess(x.id)
	}
	x.retire()
}

// cannotLog reports that something of the run could not be logged. Only the first of these failures is reported.
func (x *Run) cannotLog(what string, err error) {
	if !x.unlogged.Swap(true) {
		x.sandbox.engine.log.Warn("could not log "+what+" of a run", "sandbox", x.sandbox.id, "run", x.id, "err", err)
	}
}
