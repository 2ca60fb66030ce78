package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
)

// split is a large report whose beginning the guest has dropped, by its offsets in the channel. A file beside the logs
// describes the last one: a server that begins to read within it skips the rest.
type split struct {
	Begin uint64 `json:"begin"`
	End   uint64 `json:"end"`
}

func (in *interpreter) splitFile() string {
	return filepath.Join(in.context.sandbox.logs.Dir(), string(in.id)+".split")
}

// noteSplit writes the file, before the guest drops the channel up to an offset.
func (in *interpreter) noteSplit(at uint64) {
	begins := in.from + in.parser.Used()
	bounds := make([]uint64, 0, len(in.late.list)+2)
	for _, r := range in.late.list {
		bounds = append(bounds, r.end)
	}
	note := split{Begin: in.whole}
	for _, bound := range append(bounds, begins, begins+uint64(in.parser.Size())) {
		if bound >= at {
			note.End = bound
			break
		}
		note.Begin = bound
	}
	if note.End <= at || note.End == in.late.split.End { // the server that noted it knew where it began
		return
	}
	in.late.split = note
	if err := os.WriteFile(in.splitFile(), encode(note), 0o600); err != nil { // a full disk does not stop the code
		s := in.context.sandbox
		s.engine.log.Debug("could not note a large report", "sandbox", s.id, "err", err)
	}
}

// loadSplit reads what an earlier server noted.
func (in *interpreter) loadSplit() {
	text, err := os.ReadFile(in.splitFile())
	if err != nil || json.Unmarshal(text, &in.late.split) != nil {
		in.late.split = split{} // there was none, or its server was killed before the guest dropped anything
	}
}

// forgetSplit lets the guest drop the rest of a report whose beginning it dropped, once the run of it has ended, or its
// caller has the answer. The next server then needs no file, which a full disk refuses.
func (in *interpreter) forgetSplit() {
	in.mu.Lock()
	split, ack := in.at.split, guest.Ack{ID: string(in.id), Channel: in.at.ended}
	in.at.split = false
	in.mu.Unlock()
	if !split {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	_ = in.context.sandbox.call(ctx, func(c *client.Client) error { return c.Ack(ctx, ack) }) // else a later one does
}
