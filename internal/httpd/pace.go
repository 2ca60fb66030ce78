package httpd

import "time"

// leastRate is the lowest rate at which a client may send its body and take its answer. A slow mobile line is faster.
const leastRate = 64 << 10 // bytes per second

// pace enforces a least rate while we wait for a client. Waiting adds to the client's debt. Bytes that move reduce it,
// and so does time without waiting: a silent stream is not slow. The debt is never negative, so a fast start allows no
// slow rest. A client whose debt exceeds the timeout is cut off.
type pace struct {
	rate    int64         // bytes per second
	timeout time.Duration // the largest debt; also the longest time in which nothing moves

	owed time.Duration
	last time.Time // end of the last wait
}

// deadline begins a wait and returns when it must end.
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
