package httpapi

import (
	"context"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// freeAnswer is how much of each answer needs no room, so that small ones are always given; connections are bounded.
const freeAnswer = 64 << 10

// heldAnswer is an answer on its way, counted in the room for answers until release.
type heldAnswer struct {
	text  *jsonText
	room  *room
	owner string
	taken int64
}

func (a *heldAnswer) release() {
	a.room.give(a.owner, a.taken)
	a.taken = 0
}

// carryOut carries out a run. Its answer finds its room while the run still holds the slot, so what is held for slow readers is bounded by
// the room, and what waits for room by the slots. The caller releases the answer, also after an error.
func (s *Server) carryOut(ctx context.Context, w *response, run engine.Run, layOut func(*sandbox.Result) *jsonText) (*heldAnswer, error) {
	a := &heldAnswer{room: s.answers, owner: w.owner}
	run.Deliver = func(result *sandbox.Result) error {
		s.ran(w, run, result)
		text := layOut(result)
		result.Stdout, result.Stderr, result.Files = sandbox.Captured{}, sandbox.Captured{}, nil // they are in the answer
		need := max(0, text.size()-freeAnswer)
		if need > a.room.share() {
			return &sandbox.Error{Kind: sandbox.TooLarge, Fix: "ask for less output, or for fewer files",
				Msg: "the run ended, but its answer holds more than the " + sandbox.FormatBytes(a.room.share()) + " that one client may have on their way"}
		}
		if !a.room.wait(ctx, a.owner, need, s.waits.answer) {
			return &sandbox.Error{Kind: sandbox.Busy, Fix: "read answers sooner, or try again later",
				Msg: "the run ended, but its answer found no room: too many bytes of answers are on their way to slow readers"}
		}
		a.text, a.taken = text, need
		return nil
	}
	_, err := s.config.Engine.Run(ctx, run)
	return a, err
}
