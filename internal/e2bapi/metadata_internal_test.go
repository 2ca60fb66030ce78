package e2bapi

import (
	"fmt"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
)

// TestMetadataWork: to move and to remove a folder is work for each file that has metadata, and more for those in it.
func TestMetadataWork(t *testing.T) {
	const most = 1000
	m, s := newMetadata(nil), new(engine.Sandbox)
	of := &files{room: m.room, byKey: map[string]map[string]string{}}
	m.bySandbox[s.ID()] = of
	for i := range most {
		if err := of.put(fmt.Sprint("/a/", i), map[string]string{"by": "me"}); err != nil {
			t.Fatal(err)
		}
	}
	held := of.held
	for _, c := range []struct {
		what  string
		steps int
		least int
	}{
		{"move of another", m.move(s, "/b", "/c"), 2 * most / visitedFiles},
		{"move of all", m.move(s, "/a", "/b"), most / changedFiles},
		{"remove of another", m.remove(s, "/a"), most / visitedFiles},
	} {
		if c.steps < c.least || len(of.byKey) != most || of.held != held {
			t.Errorf("%s: %d steps, %d files", c.what, c.steps, len(of.byKey))
		}
	}
	if steps := m.remove(s, "/b"); steps < most/changedFiles || len(of.byKey) != 0 || of.held != 0 {
		t.Errorf("remove of all: %d steps, %d files with %d bytes", steps, len(of.byKey), of.held)
	}
}
