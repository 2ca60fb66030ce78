package liveserver

import (
	"io"
	"strings"
	"sync"
)

// tailBytes is how much of a server's log is kept for error messages.
const tailBytes = 4 << 10

// tail keeps the last bytes written to it.
type tail struct {
	copy io.Writer // gets everything too; may be nil

	mu   sync.Mutex // guards last
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.last = append(t.last, p...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	t.mu.Unlock()
	if t.copy != nil {
		return t.copy.Write(p)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
