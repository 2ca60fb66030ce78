package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds of an interpreter of an image that waits in a warm box. It is stopped, but a timer of its own may continue it
// (SIGCONT, signal(7)), so its usage is read again and again.
const (
	maxParkedMemory = 64 << 20               // bytes, from its start: Python takes 5 MiB
	maxParkedCPU    = 100 * time.Millisecond // once it waits
	parkedLook      = time.Second
)

// errParkedUsage means that an interpreter has exceeded a bound above.
var errParkedUsage = errors.New("it took too much before its program")

// isWatched reports whether the code of an image waits in a warm box, and nothing else of the image runs there.
func (s *Sandbox) isWatched() bool {
	root := &s.record.Spec.Root
	return s.parked != nil && !s.forked && root.Image != "" && root.Start == nil
}

// watch waits until a box of a shelf is taken or ends. If the interpreter in it exceeds its bounds, it ends the parked
// boxes of the shelf.
func (p *pool) watch(s *shelf, l *Sandbox) {
	before := l.measure()
	for {
		select {
		case <-time.After(parkedLook):
		case <-p.engine.stop.Done():
			return
		}
		now := l.measure()
		if !p.holds(s, l) { // after the reading: what a run uses is its own
			return
		}
		cpu, memory := now.CPU-before.CPU, now.MemoryNow-before.MemoryNow
		if before.CPU >= 0 && now.CPU >= 0 && (cpu > maxParkedCPU || memory > maxParkedMemory) {
			p.unpark(s, parkedUsage(cpu, memory))
		}
	}
}

func (p *pool) holds(s *shelf, l *Sandbox) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(s.ready, l)
}

// unpark ends the boxes of a shelf in which an interpreter waits. Nothing waits in its further boxes.
func (p *pool) unpark(s *shelf, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.unparked = true
	s.ready = slices.DeleteFunc(s.ready, func(l *Sandbox) bool {
		if l.parked != nil {
			p.discard(l)
		}
		return l.parked != nil
	})
	p.fill(s)
	level := slog.LevelDebug
	if s.kept {
		level = slog.LevelWarn
	}
	p.engine.log.Log(context.Background(), level, "no interpreter waits in the warm boxes of an image", "image",
		s.spec.Root.Image, "err", why)
}

func parkedUsage(cpu time.Duration, memory int64) error {
	return fmt.Errorf("%w: %v of CPU time, %s", errParkedUsage, cpu.Round(time.Millisecond),
		sandbox.FormatBytes(memory))
}
