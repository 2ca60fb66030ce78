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

// TestPartOfLocks: while there are too many locks, a sandbox may have fewer beside many others.
func TestPartOfLocks(t *testing.T) {
	for boxes, want := range map[int]int{0: mostLocks, 1: mostLocks, 10: mostLocks, 100: 200, 1000: leastLocks} {
		few, many := &locks{all: allLocks / 2, whole: allLocks / 2}, &locks{all: allLocks, whole: 1}
		if got := many.most(boxes); got != want || few.most(boxes) != mostLocks {
			t.Errorf("%d and %d locks beside %d sandboxes", got, few.most(boxes), boxes)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range int64(leastLocks + 1) {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	box := &Box{Box: &hostbox.Box{Process: &pidfd.Process{PID: os.Getpid()}}}
	found := countLocks([]*Box{box}, nil)
	if !slices.Contains(found.hoarders(leastLocks), box) || found.hoarders(mostLocks) != nil {
		t.Errorf("of a box with %d locks, %d were found", leastLocks+1, found.all)
	}
	if found := countLocks(nil, nil); found.all > 0 || found.hoarders(0) != nil {
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
