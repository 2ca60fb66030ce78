package files

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func ownTree(t testing.TB) *Tree {
	tr := New(sandbox.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	t.Cleanup(tr.Close)
	return tr
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Without openat2 the guest walks step by step, with the same result or none.
func TestOpenWithoutOpenat2(t *testing.T) {
	kernel, walking := ownTree(t), ownTree(t)
	walking.walks.Store(true)
	dir := t.TempDir()
	check(t, os.MkdirAll(dir+"/a/b", 0o755))
	check(t, os.WriteFile(dir+"/a/f", []byte("x"), 0o644))
	for name, target := range map[string]string{"rel": "a", "abs": dir + "/a", "up": "a/../a/b/..", "file": "a/f",
		"slash": "a/f/", "dangling": "none",
		"loop": "loop", "magic": "/proc/self/root", "fd": "/proc/self/fd/0", "proc": "/proc/self", "root": "/",
		"dot": "."} {
		check(t, os.Symlink(target, dir+"/"+name))
	}
	base, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(base)
	paths := []string{"", ".", "/", "a", "a/", "a/f", "a/f/", "a/f/x", "none", "none/x", "rel", "rel/f", "rel/",
		"abs/f",
		"up/f", "file", "slash", "dangling",
		"loop", "loop/x", "magic", "magic/etc", "fd", "proc/fd", "proc/status", "proc/root", "root", "root/etc",
		"dot/dot/a/f", "..", "../" + filepath.Base(dir) + "/a/f", "/etc", "a/../a/f"}
	flags := map[string]int{"read": unix.O_RDONLY | openAlways, "path": openPath,
		"nofollow": openPath | unix.O_NOFOLLOW,
		"folder":   openFolder, "write": unix.O_WRONLY | openAlways}
	// No link on /proc is followed, not even an ordinary one, nor any ".." below a folder: neither is ever needed.
	stricter := map[string]bool{"proc/fd": true, "proc/status": true, "proc/root": true, "a/../a/f": true}
	for _, path := range paths {
		for kind, flag := range flags {
			for _, resolve := range []uint64{0, within, unix.RESOLVE_NO_SYMLINKS} {
				want, wantErr := identify(kernel, base, path, flag, resolve)
				got, gotErr := identify(walking, base, path, flag, resolve)
				if gotErr != nil && stricter[path] {
					continue
				}
				if want != got || (wantErr == nil) != (gotErr == nil) {
					t.Errorf("%s %q, resolve %#x: %v, %v; the kernel has %v, %v", kind, path, resolve, got, gotErr,
						want, wantErr)
				}
			}
		}
	}
	fd, err := walking.open(base, "rel/made", unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|openAlways, 0o600,
		0)
	check(t, err)
	unix.Close(fd)
	if _, err := os.Stat(dir + "/a/made"); err != nil {
		t.Error(err)
	}
}

func identify(tr *Tree, dir int, path string, flags int, resolve uint64) ([2]uint64, error) {
	fd, err := tr.open(dir, path, flags, 0, resolve)
	if err != nil {
		return [2]uint64{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return [2]uint64{uint64(st.Dev), st.Ino}, err
}

// These threads are the code's user, and no other thread is, however many they spawn.
func TestThreadsKeepTheirUserToThemselves(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	tr := New(sandbox.User{UID: 54321, GID: 54322})
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	done := make(chan error)
	for range 64 {
		go func() {
			done <- tr.threads.do(func() error {
				groups, err := unix.Getgroups()
				if err == nil && len(groups) > 0 {
					err = unix.EPERM
				}
				uid, _ := unix.SetfsuidRetUid(-1)
				gid, _ := unix.SetfsgidRetGid(-1)
				if err == nil && (uid != 54321 || gid != 54322) {
					err = unix.EINVAL
				}
				return err
			})
		}()
		go func() {
			f, err := os.CreateTemp(dir, "")
			if err == nil {
				var st unix.Stat_t
				if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Uid != 0 {
					err = unix.EPERM
				}
				f.Close()
			}
			done <- err
		}()
	}
	for range 128 {
		check(t, <-done)
	}
	tr.Close()
	tr.Close()
	if err := tr.threads.do(func() error { return nil }); err != unix.ESHUTDOWN {
		t.Errorf("a call after close: %v", err)
	}
}
