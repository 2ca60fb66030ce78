package egress

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// meter counts a sandbox's use of its bounds.
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

// take claims a connection, or returns the reason of a refusal. A second's worth of connections may begin at once.
func (m *meter) take(b rules.Bounds, now time.Time) (reason string) {
	if !m.has(b, 1) {
		return allUsed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open >= b.Connections {
		return tooMany
	}
	rate := float64(b.Rate)
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

// count counts bytes, and reports whether they may pass.
func (m *meter) count(b rules.Bounds, sent, received int) bool {
	m.sent.Add(int64(sent))
	m.received.Add(int64(received))
	return m.has(b, 0)
}

// has reports whether so many more bytes may pass in either direction.
func (m *meter) has(b rules.Bounds, more int64) bool {
	return (b.Sent == 0 || m.sent.Load()+more <= b.Sent) && (b.Received == 0 || m.received.Load()+more <= b.Received)
}
