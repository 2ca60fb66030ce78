package egress

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// meter counts a sandbox's use of its bounds, and of the budget that it shares with other sandboxes.
type meter struct {
	budget         *budget
	pace           *pace
	sent, received atomic.Int64

	mu        sync.Mutex
	owner     string
	open      int    // connections, sessions and questions, which hold a part of the budget
	bytes     int64  // of the budget, that they and requests hold
	starts    bucket // of connections and sessions
	questions bucket // of questions to the host's resolver
}

const (
	tooMany    = "it has as many connections open as it may have"
	tooFast    = "it opens connections faster than it may"
	allUsed    = "it has used all the bytes that it may send or receive"
	ownerFull  = "the sandboxes of its owner have as many connections open as they may have together"
	budgetFull = "the sandboxes of this server have as many connections open as they may have together"
	ownerBytes = "the connections of its owner's sandboxes need as much memory of the server as they may have"
	allBytes   = "the connections of this server's sandboxes need as much memory as they may have"
	asksFast   = "it asks for names faster than it may open connections"
)

func newMeter(b *budget, owner string, cpuMillis int64) *meter {
	return &meter{budget: b, owner: owner, pace: b.processor.join(owner, cpuMillis, time.Now())}
}

// close gives back all, once the gate has ended. Connections are left only where a panic ended their goroutines.
func (m *meter) close() {
	m.budget.processor.leave(m.pace)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget.connections.Give(m.owner, int64(m.open))
	m.budget.bytes.Give(m.owner, m.bytes)
	m.open, m.bytes = 0, 0
}

// bucket bounds a rate. A second's worth may begin at once.
type bucket struct {
	tokens float64
	filled time.Time
}

func (b *bucket) take(perSecond int, now time.Time) bool {
	rate := float64(perSecond)
	b.tokens = min(rate, b.tokens+now.Sub(b.filled).Seconds()*rate)
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// take claims a connection and memory for it, or returns the reason of a refusal.
func (m *meter) take(b rules.Bounds, now time.Time, memory int64) (reason string) {
	if !m.has(b, 1) {
		return allUsed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.open >= min(b.Connections, m.budget.limits.SandboxConnections):
		return tooMany
	case !m.starts.take(b.Rate, now):
		return tooFast
	}
	if reason = m.claim(); reason != "" {
		return reason
	}
	if reason = m.claimBytes(memory); reason != "" {
		m.giveBack()
	}
	return reason
}

// ask claims a question to the host's resolver, or returns the reason of a refusal.
func (m *meter) ask(b rules.Bounds, now time.Time) (reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.questions.take(b.Rate, now) {
		return asksFast
	}
	if reason = m.claim(); reason != "" {
		return reason
	}
	if reason = m.claimBytes(questionMemory); reason != "" {
		m.giveBack()
		return reason
	}
	if reason = m.budget.ports.track(m.owner, now); reason != "" {
		m.giveBack()
		m.giveBytes(questionMemory)
	}
	return reason
}

// track counts a session of UDP, or a further question, for the host's firewall, or returns the reason of a refusal.
func (m *meter) track(now time.Time) (reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget.ports.track(m.owner, now)
}

// askAgain counts a connection for a question to the host's resolver. With again, it follows another question, and
// later questions wait for it; ask has counted the first one. release frees the port of a connection over TCP. reason
// is that of a refusal.
func (m *meter) askAgain(again bool, network, address string, now time.Time) (release func(), reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if again {
		m.questions.tokens--
	}
	place := noPort
	switch {
	case network == "tcp":
		to, _ := netip.ParseAddrPort(address) // package net has parsed it
		place, reason = m.budget.ports.take(m.owner, to, now)
	case again:
		reason = m.budget.ports.track(m.owner, now)
	}
	return sync.OnceFunc(func() { m.budget.ports.give(place, true, time.Now()) }), reason
}

// claim claims a part of the budget. The caller holds mu.
func (m *meter) claim() (reason string) {
	connections := m.budget.connections
	switch {
	case connections.Take(m.owner, 1):
		m.open++
		m.pace.spend(connectionTime)
		return ""
	case connections.HeldBy(m.owner) >= connections.Share():
		return ownerFull
	}
	return budgetFull
}

func (m *meter) giveBack() {
	m.open--
	m.budget.connections.Give(m.owner, 1)
}

// release gives back what take or ask claimed.
func (m *meter) release(memory int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveBack()
	m.giveBytes(memory)
}

// reserve claims memory, or returns the reason of a refusal.
func (m *meter) reserve(memory int64) (reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claimBytes(memory)
}

// unreserve gives back what reserve claimed.
func (m *meter) unreserve(memory int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveBytes(memory)
}

func (m *meter) claimBytes(n int64) (reason string) {
	bytes := m.budget.bytes
	switch {
	case bytes.Take(m.owner, n):
		m.bytes += n
		return ""
	case bytes.HeldBy(m.owner)+n > bytes.Share():
		return ownerBytes
	}
	return allBytes
}

func (m *meter) giveBytes(n int64) {
	m.bytes -= n
	m.budget.bytes.Give(m.owner, n)
}

// bufferSize returns the size of the stack's buffers of a new connection.
func (m *meter) bufferSize() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget.bufferSize(m.owner)
}

// setOwner makes the connections those of another owner.
func (m *meter) setOwner(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget.connections.Move(m.owner, owner, int64(m.open))
	m.budget.bytes.Move(m.owner, owner, m.bytes)
	m.budget.processor.setOwner(m.pace, owner)
	m.owner = owner
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
