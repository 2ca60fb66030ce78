package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// TestPartOfLocks: while there are too many locks, the sandboxes with the most have too many.
func TestPartOfLocks(t *testing.T) {
	for _, c := range []struct {
		room, others, each, few int // of ten sandboxes with many locks, and one with few
		over                    int
	}{{allLocks, 10, mostLocks, 0, 0}, {allLocks, 10, mostLocks + 1, 0, 10}, {allLocks, 10, mostLocks, 450, 10},
		{allLocks, 10, mostLocks, mostLocks, 11}, {10, 10, leastLocks, 1, 0}, {10, 10, leastLocks + 1, 1, 10},
		{allLocks, 0, 0, mostLocks + 1, 1}} {
		counts := map[*Box]int{new(Box): c.few}
		for range c.others {
			counts[&Box{}] = c.each
		}
		if over := overShare(counts, c.room); len(over) != c.over {
			t.Errorf("%+v: %d", c, len(over))
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range int64(mostLocks + 1) {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	box := &Box{Box: &hostbox.Box{Process: &pidfd.Process{PID: os.Getpid()}}}
	found := countLocks([]*Box{box}, nil)
	if !slices.Contains(found.hoarders(), box) {
		t.Errorf("of a box with %d locks, %d were found", mostLocks+1, found.all)
	}
	if found := countLocks(nil, nil); found.all > 0 || found.hoarders() != nil {
		t.Error("a process that is not watched was found")
	}
}

// TestFlocks: code with too many locks of whole files is killed, also if the process that took them has ended.
func TestFlocks(t *testing.T) {
	s := spec()
	s.Limits.OpenFiles = 2 * mostLocks
	box := create(t, open(t, ""), s)
	got := run(t, box, "/usr/bin/python3", "-c", fmt.Sprintf(`import fcntl, os, time
files = [open("/dev/shm/f" if i %% 2 else "/usr/bin/env", "a" if i %% 2 else "r") for i in range(%d)]
if os.fork() == 0:
    [fcntl.flock(f, fcntl.LOCK_SH) for f in files]
    os._exit(0)
os.wait()
time.sleep(60)`, mostLocks+10))
	if got.exited.Signal != int32(unix.SIGKILL) {
		t.Errorf("%+v", got)
	}
}
