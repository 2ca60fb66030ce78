package engine

import (
	"context"
	"time"
)

// startedPoll is how often AwaitProcess looks. Most processes start in less.
const startedPoll = time.Millisecond

// AwaitProcess waits until the process of a command is there, or the execution has ended. Start returns earlier, and a caller may send
// input at once.
func (x *Execution) AwaitProcess(ctx context.Context) {
	if x.context != nil {
		return
	}
	poll := time.NewTicker(startedPoll)
	defer poll.Stop()
	for {
		x.mu.Lock()
		started := x.process != nil
		x.mu.Unlock()
		if started || x.isDone() {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}
