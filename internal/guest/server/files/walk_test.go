package files

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder is read in parts that fit a budget; together they contain every name once, in order.
func TestNamesInParts(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 500 {
		name := fmt.Sprint("n", i*7919%1000)
		check(t, os.WriteFile(dir+"/"+name, nil, 0o644))
		want = append(want, name)
	}
	slices.Sort(want)
	fd, err := unix.Open(dir, openFolder, 0)
	check(t, err)
	defer unix.Close(fd)
	for _, budget := range []int{1, 100, 1000, 1 << 20} {
		var got []string
		var r folderReader
		for last, more := "", true; more; {
			names, cost, m, err := r.after(fd, last, budget)
			check(t, err)
			if cost > max(budget, nameCost+4) {
				t.Fatalf("names of cost %d with a budget of %d", cost, budget)
			}
			got, more = append(got, names...), m
			last = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("budget %d: %d names, want %d in order", budget, len(got), len(want))
		}
	}
}

func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08name\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		eachIn(b, func(name []byte) bool {
			if len(name) > len(b) {
				t.Fatal("a name is longer than its record")
			}
			return true
		})
	})
}

// A walk never goes back up from a folder that was moved.
func TestDescentNoticesAMove(t *testing.T) {
	dir := t.TempDir()
	path := dir
	fd, err := unix.Open(dir, openFolder, 0)
	check(t, err)
	var d descent
	defer d.close()
	check(t, d.push(fd, ""))
	for range 2 * maxOpenLevels {
		path += "/d"
		check(t, os.Mkdir(path, 0o755))
		fd, err := unix.Openat(d.fd(), "d", openFolder, 0)
		check(t, err)
		check(t, d.push(fd, "d"))
	}
	check(t, os.Mkdir(dir+"/elsewhere", 0o755))
	check(t, os.Rename(dir+"/d/d/d/d", dir+"/elsewhere/d"))
	for len(d.levels) > 5 {
		check(t, d.pop())
	}
	if err := d.pop(); err != errMoved {
		t.Errorf("up from a folder that was moved: %v", err)
	}
}
