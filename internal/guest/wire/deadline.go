package wire

import (
	"sync"
	"time"
)

// deadline ends one direction's waits. Its session's mu guards it.
type deadline struct {
	timer  *time.Timer // nil without a future deadline
	passed bool
}

// SetReadDeadline makes reads after t, including a waiting one, fail with ErrDeadline. The zero time removes the
// deadline.
func (st *Stream) SetReadDeadline(t time.Time) { st.setDeadline(&st.reading, t, &st.readable) }

// SetWriteDeadline does the same for writes. A failed write may have sent a part.
func (st *Stream) SetWriteDeadline(t time.Time) {
	st.setDeadline(&st.writing, t, &st.writable, &st.s.space)
}

func (st *Stream) setDeadline(d *deadline, t time.Time, waiters ...*sync.Cond) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.passed = nil, false
	if t.IsZero() || st.err != nil {
		return
	}
	pass := func() {
		d.passed = true
		for _, w := range waiters {
			w.Broadcast()
		}
	}
	left := time.Until(t)
	if left <= 0 {
		pass()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		st.s.mu.Lock()
		defer st.s.mu.Unlock()
		if d.timer == timer { // else another deadline replaced this one
			pass()
		}
	})
	d.timer = timer
}
