package httpd

import "time"

// leastRate is how fast a client sends its body, and takes its answer, at the least: a slow mobile line does more.
const leastRate = 64 << 10 // bytes per second

// pace demands of a client that it keeps up a least rate while we wait for it. Waiting adds to what it owes; bytes that move
// pay it off, and so does time in which we do not wait: a stream that has nothing to say is not slow. Nothing can be saved up, so
// a fast start buys no slow rest. Who owes more than the timeout is cut off.
type pace struct {
	rate    int64         // bytes per second that are demanded
	timeout time.Duration // the most that may be owed; also the longest time in which nothing moves

	owed time.Duration
	last time.Time // end of the last wait
}

// deadline begins a wait and says when it must be over.
func (p *pace) deadline(now time.Time) time.Time {
	if !p.last.IsZero() {
		p.owed = max(0, p.owed-now.Sub(p.last))
	}
	p.last = now
	return now.Add(p.timeout - p.owed)
}

// moved ends a wait in which n bytes moved.
func (p *pace) moved(n int, now time.Time) {
	paid := time.Duration(float64(n) / float64(p.rate) * float64(time.Second))
	p.owed = max(0, p.owed+now.Sub(p.last)-paid)
	p.last = now
}
