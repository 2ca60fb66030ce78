package e2bapi

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
)

// TestForgottenWatcher: a change that comes while its watcher is removed takes no room.
func TestForgottenWatcher(t *testing.T) {
	all := newWatchers()
	w := &watcher{room: all.room, came: make(chan struct{}), cancel: func() {}}
	all.byID["a"] = w
	for range 2 {
		if err := w.take(engine.Change{Path: "x"}); err != nil {
			t.Fatal(err)
		}
		all.forget("a")
	}
	if held := all.room.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
