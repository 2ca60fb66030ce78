package engine

import (
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestWaitWithToolsOfContext: a run with limits of its own and the tools of its context keeps the bound of its clock.
func TestWaitWithToolsOfContext(t *testing.T) {
	const most = 3 * time.Second
	planned := &plan.Run{Language: &python.Language}
	planned.Request.Calls.Limits.Wait = most
	x := &Run{job: job{Run: planned}, context: &Context{}, req: RunRequest{Background: true}}
	x.context.tools.Tools = []sandbox.Tool{{Name: "search"}}
	x.req.Request.Calls.Limits.Calls = 2
	if err := x.callable(); err != nil || x.calls.set.Limits.Wait != most {
		t.Errorf("%v: %+v", err, x.calls.set.Limits)
	}
}

// TestWaitAfterRestart: the next server keeps the bound of a wait that the request does not name.
func TestWaitAfterRestart(t *testing.T) {
	const most = 3 * time.Second
	logs, _, err := eventlog.OpenFolder(t.TempDir(), "", eventlog.Retention{}, eventlog.NewQuota(0))
	if err != nil {
		t.Fatal(err)
	}
	s, planned := &Sandbox{logs: logs}, &plan.Run{}
	planned.Request.Calls.Limits.Wait = most
	x := &Run{job: job{Run: planned, id: sandbox.NewID()}, sandbox: s, req: RunRequest{Background: true}}
	if err := x.saveRequest(); err != nil {
		t.Fatal(err)
	}
	next := RunRequest{ID: x.id}
	if !s.loadRequest(&next) || next.Request.Calls.Limits.Wait != most {
		t.Errorf("%+v", next.Request.Calls.Limits)
	}
}
