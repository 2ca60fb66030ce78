package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestTurn: an owner makes one volume at a time, and keeps no other owner waiting.
func TestTurn(t *testing.T) {
	s := open(t, t.TempDir(), boxes{})
	if !s.turns.Take("alice", 1) {
		t.Fatal("nobody makes a volume")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	request := sandbox.VolumeRequest{Owner: "alice", Name: "a", Bytes: LeastBytes,
		AllowUnenforced: []string{"disk", "inodes"}}
	if _, err := s.Create(ended, request); !errors.Is(err, context.Canceled) {
		t.Errorf("a second volume of the owner: %v", err)
	}
	request.Owner = "bob"
	if _, err := s.Create(t.Context(), request); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

// waits is a context that reports the first wait with it.
type waits struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (w *waits) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Context.Done()
}

// TestRemoveWaits: a removal that waits for its volume, for example until it is mounted, keeps no other volume waiting.
func TestRemoveWaits(t *testing.T) {
	s := open(t, t.TempDir(), boxes{})
	request := sandbox.VolumeRequest{Owner: "alice", Name: "a", Bytes: LeastBytes,
		AllowUnenforced: []string{"disk", "inodes"}}
	if _, err := s.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	unlock, err := locked(t.Context(), s.path(folder("alice", "a"), lockFile))
	if err != nil {
		t.Fatal(err)
	}
	w := &waits{Context: t.Context(), waiting: make(chan struct{})}
	removed := make(chan error)
	go func() { removed <- s.Remove(w, "alice", "a") }()
	<-w.waiting
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request.Owner = "bob"
	if _, err := s.Create(ctx, request); err != nil {
		t.Error("another owner:", err)
	}
	unlock()
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

// TestReleasedAfterClose: a file system that a store keeps no longer is not mounted from it again.
func TestReleasedAfterClose(t *testing.T) {
	s := open(t, t.TempDir(), boxes{})
	path := s.path("disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{file: file, fd: fd, users: 1}
	s.kept[path] = d
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.release(path, d)
	if again := s.mounted(path, file); again != nil {
		t.Error("a closed file system is in use")
	}
	if unused := s.forget(path); unused != nil {
		t.Error("a closed file system is closed again")
	}
}

// TestLacks: only what a host lacks permits a volume without a bound. Errors that clients can cause are tried again,
// or end the request.
func TestLacks(t *testing.T) {
	at := func(path string, err error) error { return &os.PathError{Op: "open", Path: path, Err: err} }
	_, noLoop := os.Stat(firstLoop)
	for _, c := range []struct {
		name          string
		err           error
		lacks, passes bool
	}{
		{"no loop devices", at(loopControl, unix.ENOENT), true, false},
		{"no right to mount", fmt.Errorf("mount: %w", unix.EPERM), true, false},
		{"no ext4", os.NewSyscallError("fsopen", unix.ENODEV), true, false},
		{"another process was first", os.NewSyscallError("LOOP_CONFIGURE", unix.EBUSY), false, true},
		{"the device is being detached", at("/dev/loop1", unix.ENXIO), false, true},
		{"no file of a further device", at("/dev/loop1", fs.ErrNotExist), true, noLoop == nil},
		{"no descriptors", at(loopControl, unix.EMFILE), false, false},
		{"no memory", fmt.Errorf("mount: %w", unix.ENOMEM), false, false},
		{"canceled", context.Canceled, false, false},
		{"none", nil, false, false},
	} {
		if got := lacks(c.err); got != c.lacks {
			t.Errorf("%s: lacks %t", c.name, got)
		}
		if got := passes(c.err); got != c.passes {
			t.Errorf("%s: passes %t", c.name, got)
		}
	}
	if lacks(noLoops(at("/dev/loop9", fs.ErrNotExist))) {
		t.Error("devices that are all in use permit a volume without a bound")
	}
}
