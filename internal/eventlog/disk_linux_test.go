package eventlog

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFullDisk: a full disk refuses events with a fix, holds no more in memory than ever, and once there is space the
// log goes on whole. One that finished on the full disk is written then.
func TestFullDisk(t *testing.T) {
	dir := folder(t)
	if err := syscall.Mount("eventlog-test", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "a")
	l, other := create(t, path, "{}", Bounds{}), create(t, filepath.Join(dir, "b"), "{}", Bounds{})
	const size = 10 << 10
	appended, err := uint64(0), error(nil)
	for err == nil && appended < 100 {
		if _, err = l.Append(Stdout, (appended+1)*size, make([]byte, size)); err == nil {
			appended++
		}
	}
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "free space") ||
		l.unsynced() > memory {
		t.Fatalf("after %d events, %d bytes unsynced: %v", appended, l.unsynced(), err)
	}
	for end := uint64(1); end <= memory/size+1; end++ { // until its memory is full
		if _, full := other.Append(Stdout, end*size, make([]byte, size)); full != nil {
			break
		}
	}
	if err := other.Finish(make([]byte, size)); err == nil || !other.Last().Finished {
		t.Errorf("the end on a full disk: %v", err)
	}
	if err := syscall.Mount("eventlog-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=2m"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(Stdout, (appended+1)*size, make([]byte, size))
	if err := errors.Join(err, l.Finish(nil), l.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	again, _, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if last := again.Last(); last != l.Last() || !last.Finished || last.Stdout != (appended+1)*size {
		t.Errorf("%+v, %+v", last, l.Last())
	}
}
