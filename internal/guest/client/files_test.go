package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// someone is a user other than the root that runs the tests.
var someone = sandbox.User{UID: 54321, GID: 54321}

func self() sandbox.User {
	return sandbox.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

// serve runs a guest in this process, over a socket pair, that makes file calls as user.
func serve(t testing.TB, user sandbox.User) *client.Client {
	t.Helper()
	key := [guest.KeySize]byte{9}
	s, err := server.New(server.Config{Key: key, ID: "files", User: user})
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeConn(os.NewFile(uintptr(fds[0]), "guest"))
	}()
	f := os.NewFile(uintptr(fds[1]), "host")
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	c, err := client.New(limit(t), conn, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-served
		s.Close()
	})
	return c
}

// asEach runs a test as the current user and, if that is root, as another user, who owns the folder.
func asEach(t *testing.T, test func(t *testing.T, c *client.Client, dir string)) {
	// The folder comes first, so that it is removed after the guest ends.
	t.Run("self", func(t *testing.T) {
		dir := t.TempDir()
		test(t, serve(t, self()), dir)
	})
	if os.Geteuid() != 0 {
		t.Log("not root: file calls as another user are not tried")
		return
	}
	t.Run("other", func(t *testing.T) {
		dir := dirFor(t, someone)
		test(t, serve(t, someone), dir)
	})
}

// dirFor returns a folder of the user, below folders that the user may enter. It lies in memory if possible, as in a
// sandbox: a disk may be slow.
func dirFor(t testing.TB, user sandbox.User) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "files")
	if err != nil {
		dir, err = os.MkdirTemp("", "files")
	}
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chown(dir, int(user.UID), int(user.GID)))
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file that belongs to the owner of its folder.
func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Dir(path), &st))
	must(t, os.Lchown(path, int(st.Uid), int(st.Gid)))
}

func get(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// wantError checks an error's kind, its errno, and that its text contains says.
func wantError(t testing.TB, err error, kind sandbox.Kind, errno syscall.Errno, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v that says %q", kind, says)
		return
	}
	if got := sandbox.KindOf(err); got != kind {
		t.Errorf("%v: kind %v, want %v", err, got, kind)
	}
	if errno != 0 && !errors.Is(err, errno) {
		t.Errorf("%v: is not %v", err, errno)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("%v: does not say %q", err, says)
	}
}

func TestWriteThenRead(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		path := dir + "/f.txt"
		content := strings.Repeat("fumehood ", 100_000) // many messages
		for _, atomic := range []bool{true, false} {
			must(t, c.WriteFile(limit(t), guest.WriteFile{Path: path, Atomic: atomic, Truncate: true, Mode: 0o640},
				strings.NewReader(content)))
			var out bytes.Buffer
			info, err := c.ReadFile(limit(t), guest.ReadFile{Path: path}, &out)
			must(t, err)
			if out.String() != content || info.Size != uint64(len(content)) || info.Mode != 0o640 {
				t.Fatalf("atomic %v: read %d bytes of %d, info %+v", atomic, out.Len(), len(content), info)
			}
			content = content[:1000]
		}
		var out bytes.Buffer
		_, err := c.ReadFile(limit(t), guest.ReadFile{Path: path, Offset: 9, Length: 8}, &out)
		must(t, err)
		if out.String() != "fumehood" {
			t.Errorf("part of the file: %q", &out)
		}
		out.Reset()
		_, err = c.ReadFile(limit(t), guest.ReadFile{Path: path, Offset: 1 << 62, Length: 1 << 63}, &out)
		if err != nil || out.Len() > 0 {
			t.Errorf("past the end: %q, %v", &out, err)
		}
		var st unix.Stat_t
		must(t, unix.Stat(path, &st))
		var parent unix.Stat_t
		must(t, unix.Stat(dir, &parent))
		if st.Uid != parent.Uid || st.Gid != parent.Gid {
			t.Errorf("the file belongs to %d:%d, want %d:%d", st.Uid, st.Gid, parent.Uid, parent.Gid)
		}
		onlyEntry(t, dir, "f.txt")
	})
}

func onlyEntry(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("%s holds %q, want %q", dir, got, names)
	}
}

func TestWriteAtOffset(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	put(t, dir+"/f", "0123456789")
	write := func(req guest.WriteFile, s string) {
		t.Helper()
		req.Path = dir + "/f"
		must(t, c.WriteFile(limit(t), req, strings.NewReader(s)))
	}
	write(guest.WriteFile{Offset: 2}, "ab")
	if got := get(t, dir+"/f"); got != "01ab456789" {
		t.Errorf("after a write in the middle: %q", got)
	}
	write(guest.WriteFile{Truncate: true}, "short") // a stale tail is a leak of what was there before
	if got := get(t, dir+"/f"); got != "short" {
		t.Errorf("after a shorter overwrite: %q", got)
	}
	write(guest.WriteFile{Offset: 7, Truncate: true}, "")
	if got := get(t, dir+"/f"); got != "short\x00\x00" {
		t.Errorf("after truncation past the end: %q", got)
	}
	err := c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/f", Offset: 1<<63 - 2}, strings.NewReader("over"))
	wantError(t, err, sandbox.TooLarge, syscall.EFBIG, "the maximum size of a file")
	err = c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/f", Offset: 1 << 63}, strings.NewReader("over"))
	wantError(t, err, sandbox.Invalid, syscall.EINVAL, "")
}

// A call that fails at once must not wait for the rest of the host's data.
func TestEarlyFailureOfALargeWrite(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	large := bytes.NewReader(make([]byte, 8<<20))
	err := c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/none/f"}, large)
	wantError(t, err, sandbox.NotFound, syscall.ENOENT, dir+"/none/f does not exist")
	n := 0
	_, err = c.Unpack(limit(t), guest.Unpack{Base: dir, MaxFiles: 1}, func() (guest.FileInfo, io.Reader, error) {
		n++
		if n > 1000 {
			return guest.FileInfo{}, nil, io.EOF
		}
		return guest.FileInfo{Path: "f" + strings.Repeat("x", n%100), Type: guest.FileRegular, Size: 1 << 16},
			bytes.NewReader(make([]byte, 1<<16)), nil
	})
	wantError(t, err, sandbox.TooLarge, 0, "over the limit of 1 files")
}

// Truncated content is never taken for complete.
func TestCanceledWriteLeavesTheOldFile(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		put(t, dir+"/f", "old")
		cut := io.MultiReader(strings.NewReader(strings.Repeat("new", 100_000)), errReader{io.ErrUnexpectedEOF})
		err := c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/f", Atomic: true}, cut)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error of the reader: %v", err)
		}
		ctx, cancel := context.WithCancel(limit(t))
		err = c.WriteFile(ctx, guest.WriteFile{Path: dir + "/f", Atomic: true},
			&cancelReader{cancel: cancel, after: 20})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		await(t, func() bool { entries, _ := os.ReadDir(dir); return len(entries) == 1 })
		if got := get(t, dir+"/f"); got != "old" {
			t.Errorf("the file holds %d bytes, want the old ones", len(got))
		}
		_, err = c.Unpack(limit(t), guest.Unpack{Base: dir}, func() (guest.FileInfo, io.Reader, error) {
			return guest.FileInfo{Path: "half", Type: guest.FileRegular, Size: 1 << 20}, cut, nil
		})
		if err == nil {
			t.Error("unpack of a file that is cut: no error")
		}
		await(t, func() bool { _, err := os.Lstat(dir + "/half"); return os.IsNotExist(err) })
		// The host's connection ends, as when a server is killed.
		err = c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/f", Atomic: true},
			&cancelReader{cancel: func() { c.Close() }, after: 20})
		if err == nil {
			t.Error("the connection has ended: no error")
		}
		await(t, func() bool { entries, _ := os.ReadDir(dir); return len(entries) == 1 })
		if got := get(t, dir+"/f"); got != "old" {
			t.Errorf("after the connection's end the file holds %d bytes, want the old ones", len(got))
		}
	})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

type cancelReader struct {
	cancel func()
	after  int
}

func (r *cancelReader) Read(p []byte) (int, error) {
	if r.after--; r.after == 0 {
		r.cancel()
	}
	return len(p), nil
}
