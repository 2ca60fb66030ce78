package e2bapi

import (
	"context"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// newWatched returns a sandbox and its watchers.
func newWatched(t *testing.T) (*engine.Engine, *engine.Sandbox, *watchers) {
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s, _, err := e.Create(t.Context(), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	all := newWatchers()
	t.Cleanup(all.close)
	return e, s, all
}

// TestEndedWatcher: a watcher whose folder was removed keeps its changes for its client, and gives their room back once
// the sandbox has ended.
func TestEndedWatcher(t *testing.T) {
	_, s, all := newWatched(t)
	const dir = sandbox.Workspace + "/d"
	if err := s.WriteFile(t.Context(), dir+"/a", 0, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	w := &watcher{sandbox: s, dir: dir, room: all.room, came: make(chan struct{})}
	if err := all.begin(t.Context(), "a", w, false); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveFile(t.Context(), dir, true); err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("it keeps no changes", func() bool { return all.room.Held() > 0 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	until("the room of an ended sandbox is held", func() bool { return all.room.Held() == 0 })
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.byID) > 0 {
		t.Error("the watcher of an ended sandbox is kept")
	}
}

// TestForgottenWatcher: a change that comes while its watcher is removed takes no room.
func TestForgottenWatcher(t *testing.T) {
	all := newWatchers()
	w := &watcher{room: all.room, came: make(chan struct{}), cancel: func() {}}
	all.byID["a"] = w
	for range 2 {
		_ = w.take(engine.Change{Path: "x"}) // the second is lost
		all.forget("a")
	}
	if held := all.room.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestRefusedWatchers: a watcher over the limit leaves nothing behind.
func TestRefusedWatchers(t *testing.T) {
	all := newWatchers()
	defer all.close()
	s := &engine.Sandbox{}
	for n := range maxWatchers {
		all.enter(sandbox.ID(rune('a'+n)), &watcher{sandbox: s})
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const refused, most = 30_000, 1 << 20
	before := heap()
	for range refused {
		if err := all.begin(t.Context(), "z", &watcher{sandbox: s}, false); sandbox.KindOf(err) != sandbox.Quota {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+most {
		t.Errorf("%d refused watchers hold %d bytes", refused, after-before)
	}
	runtime.KeepAlive(all)
}

// asked calls each time that something asks it for the call.
type asked struct {
	context.Context
	each func()
}

func (a asked) Value(key any) any {
	if key == (called{}) {
		a.each()
	}
	return a.Context.Value(key)
}

// TestDescribedChanges: changes take room until all of their files are described.
func TestDescribedChanges(t *testing.T) {
	e, s, all := newWatched(t)
	server, err := httpd.New(httpd.Config{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{sandbox: s, dir: sandbox.Workspace, entry: true, room: all.room, came: make(chan struct{})}
	all.enter("a", w)
	const changes = 3
	for range changes {
		_ = w.take(engine.Change{Kind: engine.ChangeCreate, Path: "a"})
	}
	least, whole := all.room.Held(), all.room.Held()
	ctx := asked{context.WithValue(t.Context(), called{}, &call{sandbox: s, server: server, files: newMetadata(e),
		w: httpd.NewResponse(httptest.NewRecorder(), time.Minute)}), func() { least = min(least, all.room.Held()) }}
	got, err := filesystem{watchers: all}.GetWatcherEvents(ctx,
		connect.NewRequest(&pb.GetWatcherEventsRequest{WatcherId: "a"}))
	if err != nil || len(got.Msg.Events) != changes {
		t.Fatal(got, err)
	}
	if least != whole || all.room.Held() != 0 {
		t.Errorf("%d of %d bytes were counted, and %d are", least, whole, all.room.Held())
	}
}

// TestLostChanges: after a loss, a watcher sees nothing until its client knows of it, and all that comes later.
func TestLostChanges(t *testing.T) {
	_, s, all := newWatched(t)
	w := &watcher{sandbox: s, dir: sandbox.Workspace, room: all.room, came: make(chan struct{})}
	if err := all.begin(t.Context(), "a", w, false); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), called{}, &call{sandbox: s, w: httpd.NewResponse(httptest.NewRecorder(),
		time.Minute)})
	events := func() ([]*pb.FilesystemEvent, error) {
		got, err := filesystem{watchers: all}.GetWatcherEvents(ctx,
			connect.NewRequest(&pb.GetWatcherEventsRequest{WatcherId: "a"}))
		if err != nil {
			return nil, err
		}
		return got.Msg.Events, nil
	}
	write := func(name string) {
		if err := s.WriteFile(t.Context(), name, 0, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	left, leave := context.WithCancel(ctx)
	leave()
	w.resume(left)
	if _, lost, _ := w.drop(); !lost {
		t.Error("a loss is forgotten whose client has left")
	}
	for range maxChanges {
		_ = w.take(engine.Change{Kind: engine.ChangeWrite, Path: "a"})
	}
	for _, name := range []string{"lost", "unseen"} {
		write(name)
	}
	if _, err := events(); connect.CodeOf(err) != connect.CodeDataLoss {
		t.Fatalf("after a loss: %v", err)
	}
	write("b")
	list, err := events()
	seen := map[string]bool{}
	for _, event := range list {
		seen[event.Name] = true
	}
	if err != nil || !seen["b"] || seen["lost"] || seen["unseen"] {
		t.Errorf("after the loss was reported: %v %v", list, err)
	}
}
