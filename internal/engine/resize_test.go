package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// resizable is a box and a passage that note their CPU limit.
type resizable struct {
	sandbox.Box
	sandbox.Passage
	cpu  int64 // of the passage
	fail error
}

func (r *resizable) Resize(context.Context, sandbox.Limits) error { return r.fail }
func (r *resizable) SetCPU(millis int64)                          { r.cpu = millis }
func (r *resizable) Close() error                                 { return nil }

// TestResizePassage: the passage gets the CPU limit that the box has.
func TestResizePassage(t *testing.T) {
	both := &resizable{cpu: 100}
	s := &Sandbox{life: t.Context()}
	s.box, s.passage = struct {
		sandbox.Box
		sandbox.Resizer
	}{nil, both}, both
	for _, c := range []struct {
		to, want int64
		fail     error
	}{{200, 200, nil}, {0, 200, nil}, {300, 200, errors.New("refused")}} {
		both.fail = c.fail
		err := s.resizeBox(sandbox.Limits{MemoryBytes: 1, CPUMillis: c.to})
		if !errors.Is(err, c.fail) || both.cpu != c.want {
			t.Errorf("to %d: %d, %v", c.to, both.cpu, err)
		}
	}
}
