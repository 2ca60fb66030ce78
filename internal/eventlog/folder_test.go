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
	f, entries, err := OpenFolder(dir, Retention{}, &Quota{})
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
	f, entries, err = OpenFolder(dir, Retention{Logs: 3, Bytes: 1000}, &Quota{})
	if err != nil || len(entries) != 5 || entries[4].ID != torn || entries[4].Err == nil {
		t.Fatal(entries, err)
	}
	for i, e := range entries[:4] {
		if e.ID != ids[i] || string(e.Head) != "head of "+string(e.ID) || e.Finished != (i > 0) || e.Err != nil {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	one, err := f.Retire(ids[0], 0)
	if err != nil || len(one) != 2 || one[0] != ids[1] || one[1] != ids[2] {
		t.Errorf("by number, %v of %v are removed: %v", one, ids, err)
	}
	two, err := f.Retire(sandbox.NewID(), 990)
	if err != nil || len(two) != 1 || two[0] != ids[3] {
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

// TestQuota: of all folders together, the oldest finished logs go first.
func TestQuota(t *testing.T) {
	quota := &Quota{Most: 250}
	var folders []*Folder
	var ids []sandbox.ID
	for i := range 3 {
		f, _, err := OpenFolder(filepath.Join(folder(t), "logs"), Retention{}, quota)
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
		if _, err := os.Stat(f.File(ids[i])); (err == nil) != (i > 0) {
			t.Errorf("log %d: %v", i, err)
		}
	}
	if err := folders[1].Remove(); err != nil || quota.Bytes() != 100 || len(quota.folders) != 2 {
		t.Error(quota.Bytes(), err)
	}
}
