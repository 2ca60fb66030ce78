package egress

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// anAttempt is one whose strings fill a line.
func anAttempt(n int) Attempt {
	return Attempt{Time: time.Unix(int64(n), 0).UTC(), Protocol: sandbox.ProtocolHTTP,
		Name: fmt.Sprintf("n%d.example", n%500), Address: netip.MustParseAddr("192.0.2.1"), Port: 80,
		Allowed: n%3 > 0, Method: "GET", Path: strings.Repeat("/\x00<é", 60), Status: 200, Sent: int64(n)}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestJournal: attempts and totals are the same after a server was killed at any byte of what it wrote, up to there,
// and the files stay bounded.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Log, *journal) {
		t.Helper()
		l := &Log{}
		l.add(anAttempt(0)) // between the gate's opening and the journal's
		j, err := openJournal(l, dir, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return l, j
	}
	attempts := uint64(0)
	for round, more := range []int{0, 10, 5_000, 10, 1500} {
		l, j := open()
		if attempts++; l.Position() != attempts || l.Summary().Allowed+l.Summary().Refused != attempts {
			t.Fatalf("round %d: %d attempts, %+v, want %d", round, l.Position(), l.Summary().NetworkTotal, attempts)
		}
		for i := range more {
			l.add(anAttempt(i))
			if i%500 == 0 { // in some rounds the journal keeps pace, and in others it has gaps
				runtime.Gosched()
			}
		}
		attempts += uint64(more)
		for round == 3 && !exists(filepath.Join(dir, journalBefore)) { // until a file is full
			l.add(anAttempt(int(attempts)))
			attempts++
			runtime.Gosched()
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		again := &Log{}
		k, err := openJournal(again, dir, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Summary(), l.Summary()) || again.Position() != l.Position() {
			t.Errorf("round %d: the totals are %+v, want %+v", round, again.Summary().NetworkTotal,
				l.Summary().NetworkTotal)
		}
		if kept, was := again.Last(10), l.Last(10); !reflect.DeepEqual(kept, was) {
			t.Errorf("round %d: %+v is kept, want %+v", round, kept, was)
		}
		if err := k.close(); err != nil {
			t.Fatal(err)
		}
		// A server is killed while it writes a line.
		f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"Attempt":{"Seq":`); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files {
		if at, err := os.Stat(name); err != nil || at.Size() > maxJournal+maxAttempts*2<<10+maxLine ||
			at.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, at, err)
		}
	}
	if len(files) != 2 {
		t.Errorf("%q", files)
	}
}

// TestReadAttemptsSurvive: an attempt that was read is in the files, so that no later one gets its Seq.
func TestReadAttemptsSurvive(t *testing.T) {
	dir := t.TempDir()
	g := &gate{Log: &Log{}}
	var err error
	if g.journal, err = openJournal(g.Log, dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	for seq, read := range []func() uint64{
		func() uint64 { return g.Summary().Allowed + g.Summary().Refused },
		func() uint64 { return g.Last(1)[0].Seq },
		func() uint64 { list, _ := g.Follow(t.Context(), 2); return list[0].Seq },
	} {
		g.Log.add(anAttempt(seq))
		if got := read(); got != uint64(seq+1) {
			t.Errorf("read %d, want %d", got, seq+1)
		}
		killed := &Log{}
		if err := killed.read(g.journal.root, journalName); err != nil || killed.last != uint64(seq+1) {
			t.Errorf("attempt %d was read, and the files end at %d: %v", seq+1, killed.last, err)
		}
	}
	if err := g.journal.close(); err != nil {
		t.Error(err)
	}
}

// TestJournalContinues: a journal that could not write for a while, in the middle of a line or at a change of the file,
// has all attempts of that time. To open it needs no space. A damaged line costs only itself.
func TestJournalContinues(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, journalName)
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 2*maxLine)), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &Log{}
	j, err := openJournal(l, dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != 2*maxLine {
		t.Errorf("to open the journal changed it: %v, %v", info, err)
	}
	j.stop()
	<-j.done // from here on only this test writes
	fail := func(full bool, attempt int) {
		t.Helper()
		l.add(anAttempt(attempt))
		j.mu.Lock()
		usable := j.file
		j.file, err = os.Open(name) // a write to it fails
		if full {
			j.size = maxJournal + 1
			if err := os.Mkdir(filepath.Join(dir, journalBefore), 0o700); err != nil {
				t.Error(err)
			}
		}
		j.mu.Unlock()
		if _, err := j.flush(); err == nil {
			t.Error("a write to a full disk succeeded")
		}
		j.mu.Lock()
		j.file.Close()
		j.file = usable
		j.mu.Unlock()
		if full {
			if err := os.Remove(filepath.Join(dir, journalBefore)); err != nil {
				t.Error(err)
			}
		}
	}
	fail(false, 1)
	if _, err := j.file.WriteString(`{"Attempt":{"Seq":1`); err != nil { // a part of a batch was written
		t.Fatal(err)
	}
	fail(true, 2)
	l.add(anAttempt(3))
	if last, err := j.flush(); last != 3 || err != nil {
		t.Errorf("later it wrote up to %d: %v", last, err)
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
	again := &Log{}
	k, err := openJournal(again, dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Last(9), l.Last(9)) || !reflect.DeepEqual(again.Summary(), l.Summary()) {
		t.Errorf("the journal has %+v, want %+v", again.Last(9), l.Last(9))
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}

// TestFollowEnds: who follows the log of a network gets all attempts, and learns that it is closed.
func TestFollowEnds(t *testing.T) {
	l := &Log{}
	l.add(anAttempt(0))
	ended := make(chan error, 1)
	go func() {
		_, err := l.Follow(t.Context(), 1)
		ended <- err
	}()
	l.end()
	if err := <-ended; err == nil {
		t.Error("a waiting follower gets no error")
	}
	if list, err := l.Follow(t.Context(), 0); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestFollowPieces: who follows a log gets few attempts at once, and in the end all that it keeps.
func TestFollowPieces(t *testing.T) {
	var l Log
	for range 2 * maxAttempts {
		l.add(Attempt{Name: "site.example"})
	}
	next := uint64(maxAttempts + 1)
	for next <= 2*maxAttempts {
		list, err := l.Follow(t.Context(), next-1)
		if err != nil || len(list) == 0 || len(list) > maxFollowed {
			t.Fatalf("%d attempts, %v", len(list), err)
		}
		for _, a := range list {
			if a.Seq != next {
				t.Fatalf("%d follows %d", a.Seq, next-1)
			}
			next++
		}
	}
}
