package nowait

import (
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFile: a write takes what fits without a wait, a read waits for bytes, the end or a deadline, and a descriptor
// whose calls may wait is refused.
func TestFile(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	defer w.Close()
	in, out := New(r), New(w)
	if err := r.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	if n, err := in.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(n, err)
	}
	r.SetReadDeadline(time.Time{})
	most, err := out.TryWrite(buf)
	if most == 0 || most == len(buf) || err != nil || Unread(fds[0]) != most {
		t.Error(most, err, Unread(fds[0]))
	}
	if n, err := out.TryWrite(buf); n != 0 || err != nil {
		t.Error("a full pipe:", n, err)
	}
	if n, err := in.Read(buf); n != most || err != nil {
		t.Error(n, most, err)
	}
	var writer sync.WaitGroup
	writer.Go(func() { out.TryWrite([]byte("more")) })
	if n, err := in.Read(buf); string(buf[:n]) != "more" || err != nil {
		t.Error(n, err)
	}
	writer.Wait()
	w.Close()
	if n, err := in.Read(buf); n != 0 || err != io.EOF {
		t.Error(n, err)
	}
	r.Close()
	if _, err := in.Read(buf); err == nil {
		t.Error(err)
	}
	if _, err := out.TryWrite(buf); err == nil {
		t.Error(err)
	}
	unix.Pipe2(fds[:], unix.O_CLOEXEC)
	for _, fd := range fds {
		blocking := os.NewFile(uintptr(fd), "blocking")
		if New(blocking) != nil {
			t.Error("a descriptor that waits is accepted")
		}
		blocking.Close()
	}
	if New(io.Discard) != nil {
		t.Error("a writer without a descriptor is accepted")
	}
}
