package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestReuse: a new log takes the file of a removed one, and nothing of the old content counts: neither for the new log
// when its server was killed, nor for a follower of the old one.
func TestReuse(t *testing.T) {
	dir := filepath.Join(folder(t), "logs")
	f, _, err := OpenFolder(dir, "", Retention{Logs: 1, Bytes: 1 << 20}, &Quota{})
	if err != nil {
		t.Fatal(err)
	}
	first := sandbox.NewID()
	old, err := f.Create(first, []byte("head"))
	if err == nil { // more than is kept in memory: its followers read the file
		_, err = old.Append(Result, 0, make([]byte, 2*kept))
	}
	if err := errors.Join(err, old.Finish(nil)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []sandbox.ID{first, sandbox.NewID()} {
		if _, err := f.Retire(id, old.Last().Bytes); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(f.File(first))
	if err != nil {
		t.Fatal(err)
	}
	second := sandbox.NewID()
	l, err := f.Create(second, []byte("head"))
	if err := errors.Join(err, l.Sync()); err != nil {
		t.Fatal(err)
	}
	err = old.Follow(t.Context(), 0, func(Event) error { return nil })
	if sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("a follower of the removed log: %v", err)
	}
	after, err := os.Stat(f.File(second))
	if err != nil || !os.SameFile(before, after) || l.Last().Bytes != before.Size() {
		t.Fatalf("the file was not taken, or its size is not counted: %+v, %v", l.Last(), err)
	}
	killed, head, err := Open(f.File(second)) // as the next server finds it
	if err != nil || string(head) != "head" || killed.Last().ID != 0 || killed.Last().Finished {
		t.Errorf("%q, %+v, %v", head, killed, err)
	}
	if err := os.Rename(f.File(second), f.File(first)); err != nil { // as after a kill before the header is written
		t.Fatal(err)
	}
	if _, _, err := Open(f.File(first)); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("the content of another log: %v", err)
	}
}

// TestSpareRemoved: a removed log whose file is still there after a kill is not listed by the next server.
func TestSpareRemoved(t *testing.T) {
	dir := filepath.Join(folder(t), "logs")
	keep := Retention{Logs: 1, Bytes: 1 << 20}
	f, _, err := OpenFolder(dir, "", keep, &Quota{})
	if err != nil {
		t.Fatal(err)
	}
	ids := []sandbox.ID{sandbox.NewID(), sandbox.NewID()}
	for _, id := range ids {
		l, err := f.Create(id, nil)
		if err == nil {
			err = l.Finish(nil)
		}
		if err == nil {
			_, err = f.Retire(id, l.Last().Bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(f.File(ids[0]), time.Time{}, time.Unix(1, 0)); err != nil { // both may have one instant
		t.Fatalf("the file is not kept: %v", err)
	}
	_, entries, err := OpenFolder(dir, "", keep, &Quota{})
	if err != nil || len(entries) != 1 || entries[0].ID != ids[1] {
		t.Errorf("%v %v", entries, err)
	}
	if _, err := os.Stat(f.File(ids[0])); err == nil {
		t.Error("the file is left")
	}
}
