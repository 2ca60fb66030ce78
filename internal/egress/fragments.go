package egress

import (
	"sync"
	"time"
)

const (
	// fragmentMemory is what the stack holds at most of packets in fragments: 4 MiB in each version of IP.
	fragmentMemory = 8 << 20
	// fragmentTime is longer than the stack holds an incomplete packet (60 s, RFC 8200, section 4.5).
	fragmentTime = 70 * time.Second
)

const noFragments = "its fragments need more memory of the server than it may have"

// fragments claims memory while a sandbox sends packets in fragments, which few programs do.
type fragments struct {
	mu     sync.Mutex // guards all below
	expiry *time.Timer
	held   bool
	ended  bool
}

// admit reports whether a fragment may pass to the stack.
func (f *fragments) admit(m *meter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
		return false
	case f.held:
		f.expiry.Reset(fragmentTime)
		return true
	case m.reserve(fragmentMemory) != "":
		return false
	}
	f.held = true
	f.expiry = time.AfterFunc(fragmentTime, func() { f.release(m) })
	return true
}

// release gives the memory back after a time without fragments.
func (f *fragments) release(m *meter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held && !f.ended {
		f.held = false
		m.unreserve(fragmentMemory)
	}
}

// end admits no more fragments. The meter gives back what is held.
func (f *fragments) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended = true; f.expiry != nil {
		f.expiry.Stop()
	}
}
