package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// folder is a temporary folder without links in its path.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// collect follows until the log is done, or for an unfinished one, until its last event.
func collect(t testing.TB, l *Log, after uint64) []Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := l.Last()
	if !last.Finished && last.ID == after {
		return nil
	}
	var events []Event
	err := l.Follow(ctx, after, func(e Event) error {
		e.Data = bytes.Clone(e.Data)
		events = append(events, e)
		if e.ID == last.ID && !last.Finished {
			cancel()
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return events
}

func create(t testing.TB, path string, head string, bounds Bounds) *Log {
	t.Helper()
	l, err := Create(path, []byte(head), bounds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestTornAndDamaged: whatever a file was cut to, and whichever of its bytes was changed, it opens with a prefix of the
// events and goes on from there, or it has no whole header and says so.
func TestTornAndDamaged(t *testing.T) {
	path := filepath.Join(folder(t), "a")
	l := create(t, path, `{"code":"1"}`, Bounds{})
	stdout, synced := uint64(0), map[int64]uint64{}
	for i := range 6 {
		stdout += uint64(i * 3)
		_, err := l.Append(Stdout, stdout, bytes.Repeat([]byte{'a'}, i*3))
		_, err2 := l.Append(Result, 0, []byte("value"))
		if err := errors.Join(err, err2, l.Sync()); err != nil {
			t.Fatal(err)
		}
		synced[l.Last().Bytes] = l.Last().ID
	}
	if err := l.Finish([]byte("0")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events, header := collect(t, l, 0), headerHead+len(`{"code":"1"}`)
	check := func(what string, content []byte, least uint64) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, head, err := Open(path)
		if err != nil {
			if least > 0 || sandbox.KindOf(err) != sandbox.Unavailable || sandbox.FixOf(err) == "" {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		defer l.Close()
		last := l.Last()
		if got := collect(t, l, 0); string(head) != `{"code":"1"}` || len(got) < int(least) ||
			!slices.EqualFunc(got, events[:len(got)], same) {
			t.Errorf("%s: %d events of at least %d: %v", what, len(got), least, got)
		}
		if last.Finished {
			return
		}
		id, err := l.Append(Stderr, last.Stderr+4, []byte("more"))
		if err := errors.Join(err, l.Close()); err != nil || id != last.ID+1 {
			t.Fatal(what, id, err)
		}
		again, _, err := Open(path)
		if err != nil {
			t.Fatal(what, err)
		}
		defer again.Close()
		if got := collect(t, again, last.ID); len(got) != 1 || string(got[0].Data) != "more" ||
			got[0].Time < events[max(last.ID, 1)-1].Time {
			t.Errorf("%s: after it goes on: %v", what, got)
		}
	}
	least := uint64(0)
	for n := range len(whole) + 1 {
		least = max(least, synced[int64(n)])
		check(fmt.Sprint("cut to ", n), whole[:n], least)
		if n < len(whole) {
			damaged := bytes.Clone(whole)
			damaged[n] ^= 0x81
			unharmed := least
			if n < header {
				unharmed = 0
			}
			check(fmt.Sprint("damaged at ", n), damaged, unharmed)
		}
	}
}

func same(a, b Event) bool {
	return a.ID == b.ID && a.Time == b.Time && a.Kind == b.Kind && a.Offset == b.Offset && a.Gap == b.Gap &&
		bytes.Equal(a.Data, b.Data)
}

// TestFollow: followers that begin anywhere, one of which takes nothing until all is written, get every event once,
// from memory and from the file, while two streams are appended at the same time.
func TestFollow(t *testing.T) {
	const perStream, size = 400, 3000 // 2.4 MB, several pieces
	l := create(t, filepath.Join(folder(t), "a"), "{}", Bounds{})
	for i := range 10 {
		if _, err := l.Append(Result, 0, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	written := make(chan struct{})
	var followers, writers sync.WaitGroup
	for after := range uint64(10) {
		followers.Go(func() {
			next, ends := after+1, [2]uint64{}
			err := l.Follow(t.Context(), after, func(e Event) error {
				if after == 3 {
					<-written
				}
				if e.ID != next {
					return fmt.Errorf("event %d where %d is due", e.ID, next)
				}
				next++
				if e.Kind.isOutput() {
					s := e.Kind - Stdout
					ends[s] += size
					if e.Offset != ends[s] || len(e.Data) != size || e.Data[0] != byte(e.Offset/size) ||
						e.Data[size-1] != byte(s) {
						return fmt.Errorf("%v at %d is not what was written", e.Kind, e.Offset)
					}
				}
				return nil
			})
			if err != nil || next != 10+2*perStream+2 {
				t.Errorf("after %d: up to %d: %v", after, next, err)
			}
		})
	}
	for s := range 2 {
		writers.Go(func() {
			data := make([]byte, size)
			data[size-1] = byte(s)
			for i := range perStream {
				data[0] = byte(i + 1)
				if _, err := l.Append(Stdout+Kind(s), uint64(i+1)*size, data); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if err := l.Finish([]byte("done")); err != nil {
		t.Error(err)
	}
	close(written)
	followers.Wait()
	if len(l.mem) > kept || l.disk.file != nil {
		t.Errorf("a finished log keeps %d bytes and file %v", len(l.mem), l.disk.file)
	}
	if got := collect(t, l, l.Last().ID-1); len(got) != 1 || got[0].Kind != Done {
		t.Errorf("the end alone: %v", got)
	}
	err := l.Follow(t.Context(), l.Last().ID+1, nil)
	if sandbox.KindOf(err) != sandbox.Invalid ||
		!strings.Contains(err.Error(), fmt.Sprint("the last is ", l.Last().ID)) {
		t.Errorf("past the end: %v", err)
	}
	if _, err := l.Append(Stdout, 1<<40, nil); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("an event after done: %v", err)
	}
}

// TestBounds: the file never exceeds its bound; output beyond it shows as a gap, also after a restart, and results and
// the end still fit.
func TestBounds(t *testing.T) {
	path := filepath.Join(folder(t), "a")
	bounds := Bounds{Bytes: doneRoom + 20<<10, Reserve: 10 << 10}
	l := create(t, path, "{}", bounds)
	const size = 3 << 10
	var dropped int
	for i := range uint64(5) {
		id, err := l.Append(Stderr, (i+1)*size, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		if id == 0 {
			dropped++
		}
	}
	if _, err := l.Append(Stderr, 5*size, []byte("again")); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("output at an offset that was counted already: %v", err)
	}
	if err := l.Sync(); err != nil || dropped != 2 {
		t.Fatal(dropped, err)
	}
	killed := filepath.Join(folder(t), filepath.Base(path))
	if content, err := os.ReadFile(path); err != nil || os.WriteFile(killed, content, 0o600) != nil {
		t.Fatal(err)
	}
	after, _, err := Open(killed)
	if err != nil || after.Last() != l.Last() || l.Last().Stderr != 5*size {
		t.Fatal(after.Last(), l.Last(), err)
	}
	for what, l := range map[string]*Log{"first": l, "after a restart": after} {
		_, fits := l.Append(Result, 0, make([]byte, 9<<10))
		_, large := l.Append(Exception, 0, make([]byte, 9<<10))
		_, huge := l.Append(Result, 0, make([]byte, MaxData+1))
		long := l.Finish(make([]byte, MaxDone+1))
		for _, err := range []error{large, huge, long} {
			if sandbox.KindOf(err) != sandbox.TooLarge || fits != nil {
				t.Fatal(what, fits, err)
			}
		}
		if err := l.Finish(make([]byte, MaxDone)); err != nil {
			t.Fatal(what, err)
		}
		var kinds []Kind
		var gap uint64
		for _, e := range collect(t, l, 0) {
			kinds = append(kinds, e.Kind)
			if e.Kind == Stderr {
				gap = e.Offset
			}
		}
		if want := []Kind{Stderr, Stderr, Stderr, Result, Stderr, Done}; !reflect.DeepEqual(kinds, want) ||
			gap != 5*size {
			t.Errorf("%s: %v, the last of stderr at %d", what, kinds, gap)
		}
		if info, err := os.Stat(l.path); err != nil || info.Size() > bounds.Bytes || info.Size() != l.Last().Bytes ||
			info.Mode() != 0o600 {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
		l.Close()
	}
}

// TestSeek: who follows from the middle gets what one from the start gets, its gaps too, without reading the start.
func TestSeek(t *testing.T) {
	l := create(t, filepath.Join(folder(t), "a"), "{}", Bounds{})
	var end [2]uint64
	for i := range 200 {
		end[i%2] += uint64(5<<10 + i%3) // what is over 5 KiB was not stored
		if _, err := l.Append(Stdout+Kind(i%2), end[i%2], make([]byte, 5<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(nil); err != nil {
		t.Fatal(err)
	}
	all := collect(t, l, 0)
	opened, _, err := Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	file, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("damaged"), int64(headerHead+len("{}"))); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Log{l, opened} {
		for _, after := range []uint64{100, 101, 160, 199, 200} {
			if got := collect(t, l, after); !slices.EqualFunc(got, all[after:], same) {
				t.Errorf("after %d: %d events, want %d", after, len(got), len(all[after:]))
			}
		}
		if err := l.Follow(t.Context(), 0, func(Event) error { return nil }); err == nil {
			t.Error("the start was not read")
		}
	}
}

// TestNothingUntilAsked: a log makes no file before a sync, none at all if it is removed, and overwrites none.
func TestNothingUntilAsked(t *testing.T) {
	path := filepath.Join(folder(t), "a")
	l := create(t, path, "{}", Bounds{})
	if _, err := l.Append(Stdout, 2, []byte("ab")); err != nil || l.unsynced() != recordHead+2 {
		t.Fatal(l.unsynced(), err)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a removed log has left a file")
	}
	if _, err := l.Append(Stdout, 4, []byte("cd")); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("append to a removed log: %v", err)
	}
	first, second := create(t, path, "{}", Bounds{}), create(t, path, "{}", Bounds{})
	if err := errors.Join(first.Finish(nil), second.Finish(nil)); sandbox.KindOf(err) != sandbox.Exists ||
		first.unsynced() != 0 {
		t.Errorf("two logs in one file: %v", err)
	}
	if err := os.Symlink(path, path+"link"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path + "link"); err == nil {
		t.Error("opened through a link")
	}
}

// TestLargeEvent: memory holds no large event once the file has it, and followers get it.
func TestLargeEvent(t *testing.T) {
	l := create(t, filepath.Join(folder(t), "log"), "", Bounds{Bytes: 64 << 20})
	data := bytes.Repeat([]byte("x"), 8<<20)
	for range 2 {
		if _, err := l.Append(Result, 0, data); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if held := cap(l.mem); held > 2*memory {
			t.Errorf("%d bytes are held", held)
		}
		if _, err := l.Append(Stdout, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	events := collect(t, l, 0)
	if len(events) != 4 || !bytes.Equal(events[0].Data, data) || !bytes.Equal(events[2].Data, data) {
		t.Errorf("%d events", len(events))
	}
	if again := collect(t, l, 2); len(again) != 2 || again[0].ID != 3 {
		t.Errorf("%d events after the second", len(again))
	}
}

// TestClose: closing ends a waiting follower, who saw only what is in the file, and keeps what was appended.
func TestClose(t *testing.T) {
	path := filepath.Join(folder(t), "a")
	l := create(t, path, "{}", Bounds{})
	if _, err := l.Append(Stdout, 2, []byte("ab")); err != nil {
		t.Fatal(err)
	}
	seen, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- l.Follow(t.Context(), 0, func(e Event) error {
			if e.ID == 1 {
				if info, err := os.Stat(path); err != nil || info.Size() < int64(headerHead+2+recordHead+2) {
					t.Errorf("a follower has an event that the file has not: %v, %v", info, err)
				}
				close(seen)
			}
			return nil
		})
	}()
	<-seen
	if _, err := l.Append(Stdout, 4, []byte("cd")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("the follower of a closed log: %v", err)
	}
	again, _, err := Open(path)
	if err != nil || again.Last().Stdout != 4 {
		t.Fatal(again.Last(), err)
	}
	again.Close()
}

// unsynced returns how many bytes of events only memory has.
func (l *Log) unsynced() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.end() - max(l.synced, l.marks[0].at))
}
