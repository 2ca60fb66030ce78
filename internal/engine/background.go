package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of background output.
const (
	maxBackground = 8 << 10 // bytes of it in one answer, head and tail; the rest is counted
	// bytes a second, beyond maxStray: the guest passes on less, and reading it costs the host CPU
	maxBackgroundRate = 4 << 20
)

// background collects what code of earlier runs wrote, and what came while nothing ran, until a run's answer has it.
type background struct {
	capture *capture // nil: nothing since the last answer
	next    uint64   // offset in the guest's stream
	total   int64    // bytes since started
	started time.Time
}

// add adds output.
func (b *background) add(data []byte) {
	if b.capture == nil {
		b.capture = newCapture(maxBackground)
	}
	b.capture.write(data)
}

// takeBackground receives a piece of the guest's stream of background output.
func (in *interpreter) takeBackground(m guest.Output) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := &in.background
	if b.started.IsZero() {
		b.started, b.next = time.Now(), m.Offset
	}
	b.add(m.Data)
	if m.Offset > b.next { // the guest dropped the rest
		b.capture.total += int64(min(m.Offset-b.next, maxStray))
	}
	b.next = m.Offset + uint64(len(m.Data))
	b.total += int64(len(m.Data))
	if most := maxStray + int64(time.Since(b.started).Seconds()*maxBackgroundRate); b.total > most {
		return fmt.Errorf("it wrote more than %d bytes of background output", most)
	}
	return nil
}

// cutBackground returns the background output since the last answer.
func (in *interpreter) cutBackground() sandbox.Captured {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.background.capture
	if c == nil {
		return sandbox.Captured{}
	}
	in.background.capture = nil
	return c.captured()
}

// forgetBackground lets the guest drop the background output that an answer has: the next server would report it again.
func (in *interpreter) forgetBackground() {
	in.mu.Lock()
	ack := guest.Ack{ID: string(in.id), Background: in.background.next}
	in.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	_ = in.context.sandbox.call(ctx, func(c *client.Client) error { return c.Ack(ctx, ack) }) // else it comes again
}
