package native

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// TestPartOfLocks: a sandbox may have fewer locks beside many others, and one with more is found.
func TestPartOfLocks(t *testing.T) {
	for boxes, want := range map[int]int{1: mostLocks, 10: mostLocks, 100: 200, 1000: leastLocks} {
		if got := locksOf(boxes); got != want {
			t.Errorf("%d locks beside %d sandboxes", got, boxes)
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
	if hoarderOfLocks([]*Box{box}, leastLocks, nil) != box {
		t.Error("it was not found")
	}
	if hoarderOfLocks([]*Box{box}, mostLocks, nil) != nil || hoarderOfLocks(nil, leastLocks, nil) != nil {
		t.Error("one with few locks was found, or one that is not watched")
	}
}
