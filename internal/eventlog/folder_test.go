package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFolder: after a restart the folder lists every log with its head and whether it is finished, and it removes the
// oldest finished ones by number and by size, never a living one.
func TestFolder(t *testing.T) {
	dir := filepath.Join(folder(t), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, entries, err := OpenFolder(dir, "", Retention{}, &Quota{})
	if err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
	var ids []sandbox.ID
	for i := range 4 {
		id := sandbox.NewID()
		l := create(t, f.File(id), "head of "+string(id), Bounds{})
		err := l.Sync()
		if i > 0 {
			err = l.Finish(make([]byte, 100))
		}
		if err := errors.Join(err, l.Close(), os.Chtimes(f.File(id), time.Time{}, time.Unix(int64(i), 0))); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	torn := sandbox.NewID()
	err = os.WriteFile(f.File(torn), []byte(magic), 0o600)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "other.log"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, entries, err = OpenFolder(dir, "", Retention{Logs: 4, Bytes: 1000}, &Quota{})
	if err != nil || len(entries) != 5 || entries[4].ID != torn || entries[4].Err == nil {
		t.Fatal(entries, err)
	}
	for i, e := range entries[:4] {
		if e.ID != ids[i] || string(e.Head) != "head of "+string(e.ID) || e.Finished != (i > 0) || e.Err != nil {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	one, err := f.Retire(ids[0], 0)
	if err != nil || len(one) != 1 || one[0] != ids[1] {
		t.Errorf("by number, %v of %v are removed: %v", one, ids, err)
	}
	two, err := f.Retire(sandbox.NewID(), 990)
	if err != nil || len(two) != 2 || two[0] != ids[2] || two[1] != ids[3] {
		t.Errorf("by size, %v of %v are removed: %v", two, ids, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	if _, err := os.Stat(f.File(ids[3])); !errors.Is(err, os.ErrNotExist) {
		t.Error("a removed log is still there")
	}
	if _, err := os.Stat(f.File(ids[0])); err != nil {
		t.Error(err)
	}
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
}

// TestQuota: of all folders together, the oldest finished logs of the owner with the most bytes go first.
func TestQuota(t *testing.T) {
	quota := NewQuota(250)
	var folders []*Folder
	var ids []sandbox.ID
	for i, owner := range []string{"few", "many", "many"} {
		f, _, err := OpenFolder(filepath.Join(folder(t), "logs"), owner, Retention{}, quota)
		if err != nil {
			t.Fatal(err)
		}
		id := sandbox.NewID()
		if err := os.WriteFile(f.File(id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		removed, err := f.Retire(id, 100)
		if err != nil || (i < 2) != (len(removed) == 0) {
			t.Fatal(i, removed, err)
		}
		folders, ids = append(folders, f), append(ids, id)
	}
	for i, f := range folders {
		if _, err := os.Stat(f.File(ids[i])); (err == nil) != (i != 1) {
			t.Errorf("log %d: %v", i, err)
		}
	}
	if err := folders[2].Remove(); err != nil || quota.Bytes() != 100 || len(quota.folders) != 2 {
		t.Error(quota.Bytes(), err)
	}
}

// TestUnfinished: the output of runs that have not ended is bounded together, and for each owner.
func TestUnfinished(t *testing.T) {
	quota := NewQuota(8 * freeBytes)
	begin := func(owner string) (*Folder, sandbox.ID, *Log) {
		f, _, err := OpenFolder(filepath.Join(folder(t), "logs"), owner, Retention{}, quota)
		if err != nil {
			t.Fatal(err)
		}
		id := sandbox.NewID()
		l, err := f.Create(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f, id, l
	}
	write := func(l *Log, pieces int) (stored int) {
		at := l.Last().Stdout
		for i := range uint64(pieces) {
			id, err := l.Append(Stdout, at+(i+1)*freeBytes/2, make([]byte, freeBytes/2))
			if err != nil {
				t.Fatal(err)
			}
			if id > 0 {
				stored++
			}
		}
		return stored
	}
	f, id, first := begin("a")
	_, _, second := begin("a")
	_, _, other := begin("b")
	if n := write(first, 20); n != 9 { // some of each 64 KiB are its header and those of records
		t.Errorf("%d pieces of the first are stored", n)
	}
	if n, m := write(second, 20), write(other, 4); n != 1 || m != 4 {
		t.Errorf("%d pieces of the second are stored, %d of another owner", n, m)
	}
	if _, err := second.Append(Result, 0, make([]byte, freeBytes)); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a result: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := f.Open(id) // as the next server does
	if err != nil || quota.unfinished.HeldBy("a") != 4*freeBytes {
		t.Fatal(quota.unfinished.HeldBy("a"), err)
	}
	if err := again.Finish(nil); err != nil || write(second, 5) != 5 {
		t.Errorf("no room after the end of the first: %v", err)
	}
	if second.Finish(nil) != nil || other.Remove() != nil || quota.unfinished.Held() != 0 {
		t.Errorf("%d bytes are held", quota.unfinished.Held())
	}
}

// TestDescriptors: few of many logs keep their descriptors.
func TestDescriptors(t *testing.T) {
	dir, before := folder(t), open.most
	open.most = 3
	defer func() { open.most = before }()
	var logs []*Log
	for range 8 {
		l, err := Create(filepath.Join(dir, string(sandbox.NewID())), nil, Bounds{})
		if err == nil {
			err = l.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	kept := 0
	for _, l := range logs {
		if l.disk.file != nil {
			kept++
		}
	}
	for _, l := range logs {
		if _, err := l.Append(Stdout, 1, []byte("x")); err != nil || l.Finish(nil) != nil {
			t.Error(err)
		}
		if events := collect(t, l, 0); len(events) != 2 || string(events[0].Data) != "x" {
			t.Errorf("%+v", events)
		}
	}
	if kept != 3 || open.logs.Len() != 0 {
		t.Errorf("%d of 8 have descriptors, %d at the end", kept, open.logs.Len())
	}
}
