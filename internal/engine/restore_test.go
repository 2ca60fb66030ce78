package engine

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestReplayWhileStopping: a stop of the server does not cut the replay of a run's log.
func TestReplayWhileStopping(t *testing.T) {
	log, err := eventlog.Create(t.TempDir()+"/log", nil, eventlog.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	text, err := json.Marshal(begun{Interpreter: "i"})
	if err == nil {
		_, err = log.Append(eventlog.Began, 0, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	x := &Run{resumed: &resumed{last: log.Last()}}
	x.log.Log = log
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := x.replay(ctx); err != nil || x.resumed.began == nil || x.resumed.began.Interpreter != sandbox.ID("i") {
		t.Errorf("%+v, %v", x.resumed.began, err)
	}
}
