package egress

import (
	"sync"
	"sync/atomic"
	"time"
)

// meter counts what a sandbox has used of its bounds.
type meter struct {
	sent, received atomic.Int64

	mu     sync.Mutex
	open   int     // connections and sessions
	tokens float64 // connections that may begin now
	filled time.Time
}

const (
	tooMany = "it has as many connections open as it may have"
	tooFast = "it opens connections faster than it may"
	allUsed = "it has used all the bytes that it may send or receive"
)

// take claims a connection. The reason says why there is none. A second's worth of them may begin at once.
func (m *meter) take(b bounds, now time.Time) (reason string) {
	if m.exhausted(b) {
		return allUsed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open >= b.connections {
		return tooMany
	}
	rate := float64(b.rate)
	m.tokens = min(rate, m.tokens+now.Sub(m.filled).Seconds()*rate)
	m.filled = now
	if m.tokens < 1 {
		return tooFast
	}
	m.tokens--
	m.open++
	return ""
}

func (m *meter) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
}

// exhausted reports whether no more bytes may pass.
func (m *meter) exhausted(b bounds) bool {
	return b.sent > 0 && m.sent.Load() >= b.sent || b.received > 0 && m.received.Load() >= b.received
}
