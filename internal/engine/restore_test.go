package engine

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
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

// TestRefusedCallOutlivesServer: the code gets the refusals of calls before a later one, though a server was killed
// before it sent the first.
func TestRefusedCallOutlivesServer(t *testing.T) {
	log, err := eventlog.Create(t.TempDir()+"/log", nil, eventlog.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	open := func() *Run {
		x := &Run{job: job{Run: &plan.Run{}}}
		x.calls, x.log.Log = newCalls(sandbox.Calls{Tools: []sandbox.Tool{{Name: "f",
			Schema: json.RawMessage(`{"type": "object", "required": ["n"]}`)}}}), log
		return x
	}
	first := open()
	defer first.calls.close()
	first.logBegan(begun{Request: 5, Size: 10})
	first.calls.after = 15
	for i, arguments := range []string{`{}`, `{}`, `{"n": 1}`} {
		call := driver.Frame{Kind: driver.Call,
			Fields: [][]byte{[]byte("run"), {'0' + byte(i)}, []byte("f"), []byte(arguments)}}
		if err := first.takeCall(call, uint64(100*(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	var want []byte
	for _, r := range first.calls.queued {
		want = r.record.frame().Append(want)
	}
	next := open()
	defer next.calls.close()
	next.resumed = &resumed{last: log.Last()}
	err = next.replay(t.Context())
	if waiting := len(next.calls.pending); err != nil || next.resumed.reported != 300 || waiting != 1 {
		t.Errorf("reports up to %d are in the log, %d calls wait, %v", next.resumed.reported, waiting, err)
	}
	const had = 3 // bytes of the first
	rest, err := next.restOfAnswers(t.Context(), 15+had)
	if err != nil || len(want) == 0 || string(rest) != string(want[had:]) {
		t.Errorf("the interpreter gets %q of %q, %v", rest, want, err)
	}
}

// TestReplayReadsNoValues: a start of the server decodes and keeps no values of runs, whose logs may have gigabytes.
func TestReplayReadsNoValues(t *testing.T) {
	log, err := eventlog.Create(t.TempDir()+"/log", nil, eventlog.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	const count, size = 16, 1 << 20
	value := encode(sandbox.Value{Forms: []sandbox.Form{{Type: "text/html", Data: make([]byte, size/4*3)}}})
	for range count {
		if _, err := log.Append(eventlog.Result, 7, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, finished := range []bool{false, true} {
		if finished {
			if err := log.Finish(encodeResult(&sandbox.Result{Status: sandbox.StatusKilled}, 5)); err != nil {
				t.Fatal(err)
			}
		}
		x := &Run{resumed: &resumed{last: log.Last()}}
		x.log.Log = log
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = x.replay(t.Context())
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > count*size/2 {
			t.Errorf("finished %v: %d bytes were taken", finished, took)
		}
		if err != nil || len(x.results) != 0 || !finished && x.resumed.reported != 7 ||
			finished && (x.result == nil || x.result.Status != sandbox.StatusKilled || x.process.pid != 5) {
			t.Errorf("finished %v: %+v, %v", finished, x.result, err)
		}
	}
}
