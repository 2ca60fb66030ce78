package client_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func list(t testing.TB, c *client.Client, req guest.ListDir) (paths []string, more bool) {
	t.Helper()
	more, err := c.ListDir(limit(t), req, func(f guest.FileInfo) error {
		paths = append(paths, f.Path)
		return nil
	})
	must(t, err)
	return paths, more
}

func TestFoldersMovesAndRemovals(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		ctx := limit(t)
		must(t, c.MakeDir(ctx, guest.MakeDir{Path: dir + "/a/b/c/", Parents: true, Mode: 0o700}))
		must(t, c.MakeDir(ctx, guest.MakeDir{Path: dir + "/a/b/c", Parents: true}))
		var st unix.Stat_t
		must(t, unix.Stat(dir+"/a/b/c", &st))
		if st.Mode&0o7777 != 0o700 {
			t.Errorf("mode %o, want 700", st.Mode&0o7777)
		}
		wantError(t, c.MakeDir(ctx, guest.MakeDir{Path: dir + "/a"}), sandbox.Exists, syscall.EEXIST,
			dir+"/a exists already")
		wantError(t, c.MakeDir(ctx, guest.MakeDir{Path: dir + "/x/y"}), sandbox.NotFound, syscall.ENOENT, "")
		must(t, c.WriteFile(ctx, guest.WriteFile{Path: dir + "/p/q/f", MakeParent: true, Atomic: true},
			strings.NewReader("1")))
		put(t, dir+"/g", "2")
		wantError(t, c.Move(ctx, guest.Move{From: dir + "/g", To: dir + "/p/q/f"}), sandbox.Exists, syscall.EEXIST,
			"/p/q/f exists already")
		must(t, c.Move(ctx, guest.Move{From: dir + "/g", To: dir + "/p/q/f", Replace: true}))
		if got := get(t, dir+"/p/q/f"); got != "2" {
			t.Errorf("after the move: %q", got)
		}
		wantError(t, c.Move(ctx, guest.Move{From: dir + "/p", To: dir + "/p/q/z"}), sandbox.Invalid, 0,
			"moved into itself")
		wantError(t, c.Move(ctx, guest.Move{From: dir + "/p/q/f/", To: dir + "/h"}), sandbox.Invalid, syscall.ENOTDIR,
			"")
		wantError(t, c.Remove(ctx, guest.Remove{Path: dir + "/p"}), sandbox.Invalid, syscall.ENOTEMPTY, "not empty")
		must(t, c.Remove(ctx, guest.Remove{Path: dir + "/p", Contents: true}))
		onlyEntry(t, dir, "a", "p")
		onlyEntry(t, dir+"/p")
		must(t, c.Remove(ctx, guest.Remove{Path: dir + "/p/"}))
		must(t, c.Remove(ctx, guest.Remove{Path: dir + "/a", Recursive: true}))
		onlyEntry(t, dir)
		wantError(t, c.Remove(ctx, guest.Remove{Path: dir + "/a"}), sandbox.NotFound, syscall.ENOENT,
			dir+"/a does not exist")
	})
}

func TestAtomicWriteAndWhatIsThere(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	ctx := limit(t)
	write := func(req guest.WriteFile) error {
		req.Path = dir + "/" + req.Path
		return c.WriteFile(ctx, req, strings.NewReader("new"))
	}
	put(t, dir+"/target", "old")
	must(t, os.Chmod(dir+"/target", 0o751))
	must(t, os.Symlink("target", dir+"/link"))
	must(t, write(guest.WriteFile{Path: "link", Atomic: true}))
	if info, _ := os.Lstat(dir + "/link"); !info.Mode().IsRegular() || get(t, dir+"/target") != "old" {
		t.Error("an atomic write went through a link")
	}
	must(t, write(guest.WriteFile{Path: "target", Atomic: true}))
	if info, _ := os.Lstat(dir + "/target"); info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v after replacement, want that of the old file", info.Mode())
	}
	must(t, unix.Mkfifo(dir+"/pipe", 0o644))
	wantError(t, write(guest.WriteFile{Path: "pipe"}), sandbox.Invalid, 0, "not a regular file")
	must(t, write(guest.WriteFile{Path: "pipe", Atomic: true}))
	must(t, os.Mkdir(dir+"/folder", 0o755))
	for _, atomic := range []bool{false, true} {
		wantError(t, write(guest.WriteFile{Path: "folder", Atomic: atomic}), sandbox.Invalid, syscall.EISDIR,
			"is a folder")
		wantError(t, write(guest.WriteFile{Path: "target", Atomic: atomic, Exclusive: true}), sandbox.Exists,
			syscall.EEXIST,
			"exists already")
		wantError(t, write(guest.WriteFile{Path: "target/", Atomic: atomic}), sandbox.Invalid, syscall.ENOTDIR, "")
		must(t, os.Symlink("folder", dir+"/up"))
		wantError(t, write(guest.WriteFile{Path: "up/f", Atomic: atomic, MakeParent: true}), sandbox.Invalid, 0, "")
		must(t, os.Remove(dir+"/up"))
		must(t, write(guest.WriteFile{Path: fmt.Sprint("fresh", atomic), Atomic: atomic, Exclusive: true}))
	}
	onlyEntry(t, dir, "folder", "freshfalse", "freshtrue", "link", "pipe", "target")
	onlyEntry(t, dir+"/folder")
}

func TestPathsThatAreRefused(t *testing.T) {
	c := serve(t, self())
	ctx := limit(t)
	for _, path := range []string{"", "../../etc/cron.d/x", "a/../../b", "a\x00b", "..", strings.Repeat("a/", 5000),
		"/" + strings.Repeat("x", 300) + "/y",
		"/", "/.", "/tmp/..", "/tmp/."} {
		for name, call := range map[string]func() error{
			"write": func() error {
				return c.WriteFile(ctx, guest.WriteFile{Path: path, Atomic: true}, strings.NewReader(""))
			},
			"remove": func() error { return c.Remove(ctx, guest.Remove{Path: path, Recursive: true}) },
			"mkdir":  func() error { return c.MakeDir(ctx, guest.MakeDir{Path: path}) },
			"move":   func() error { return c.Move(ctx, guest.Move{From: "/tmp/none", To: path}) },
			"from":   func() error { return c.Move(ctx, guest.Move{From: path, To: "/tmp/none"}) },
		} {
			err := call()
			if kind := sandbox.KindOf(err); err == nil || kind == sandbox.Internal || kind == sandbox.Unavailable {
				t.Errorf("%s %.20q: %v of kind %v", name, path, err, kind)
			}
		}
	}
	for _, path := range []string{"/proc/self/environ", "/proc/1/root/etc/hostname", "/proc",
		"/sys/kernel/uevent_seqnum",
		"/proc/self/fd/0"} {
		_, err := c.ReadFile(ctx, guest.ReadFile{Path: path}, io.Discard)
		wantError(t, err, sandbox.Invalid, 0, "")
		_, err = c.Stat(ctx, guest.Stat{Path: path, Follow: true})
		wantError(t, err, sandbox.Invalid, 0, "")
	}
	_, err := c.Stat(ctx, guest.Stat{Path: "/proc/self/environ"})
	wantError(t, err, sandbox.Invalid, 0, "/proc/self/environ is on a kernel file system")
}

// A02: a link by which the code tries to make the guest read for it.
func TestLinksToTheGuestsOwnView(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	ctx := limit(t)
	for name, target := range map[string]string{"e": "/proc/self/environ", "h": "/proc/1/root/etc/hostname",
		"f": "/proc/self/fd/1",
		"x": "/proc/self/exe", "loop": "loop", "cwd": "/proc/self/cwd/go.mod"} {
		must(t, os.Symlink(target, dir+"/"+name))
		_, err := c.ReadFile(ctx, guest.ReadFile{Path: dir + "/" + name}, io.Discard)
		wantError(t, err, sandbox.Invalid, 0, dir+"/"+name)
		err = c.WriteFile(ctx, guest.WriteFile{Path: dir + "/" + name, Truncate: true}, strings.NewReader("x"))
		wantError(t, err, sandbox.Invalid, 0, dir+"/"+name)
		info, err := c.Stat(ctx, guest.Stat{Path: dir + "/" + name})
		if err != nil || info.Type != guest.FileSymlink || info.Target != target {
			t.Errorf("stat of the link: %+v, %v", info, err)
		}
		// A trailing slash makes the kernel follow a link even with O_NOFOLLOW.
		if info, err := c.Stat(ctx, guest.Stat{Path: dir + "/" + name + "/"}); err == nil {
			t.Errorf("stat of %s/: %+v", name, info)
		}
	}
	err := c.Pack(ctx, guest.Pack{Base: dir}, func(info guest.FileInfo, content io.Reader) error {
		if b, _ := io.ReadAll(content); info.Type != guest.FileSymlink || len(b) > 0 {
			t.Errorf("packed %+v with %d bytes", info, len(b))
		}
		return nil
	})
	must(t, err)
}

func TestWhatIsNotPermittedToTheCode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be refused as another user")
	}
	c, dir := serve(t, someone), dirFor(t, someone)
	ctx := limit(t)
	put(t, dir+"/rootfile", "secret")
	must(t, os.Chown(dir+"/rootfile", 0, 0))
	must(t, os.Chmod(dir+"/rootfile", 0o600))
	_, err := c.ReadFile(ctx, guest.ReadFile{Path: dir + "/rootfile"}, io.Discard)
	wantError(t, err, sandbox.Invalid, syscall.EACCES, "not accessible")
	err = c.WriteFile(ctx, guest.WriteFile{Path: dir + "/rootfile"}, strings.NewReader("x"))
	wantError(t, err, sandbox.Invalid, syscall.EACCES, "not accessible")
	wantError(t, c.MakeDir(ctx, guest.MakeDir{Path: "/etc/fumehood-test"}), sandbox.Invalid, syscall.EACCES,
		"not accessible")

	// The code does not have the guest's groups.
	must(t, os.Chmod(dir+"/rootfile", 0o040))
	_, err = c.ReadFile(ctx, guest.ReadFile{Path: dir + "/rootfile"}, io.Discard)
	wantError(t, err, sandbox.Invalid, syscall.EACCES, "not accessible")

	// A folder without permissions is described, listed with a reason, and can be removed with its content.
	must(t, c.MakeDir(ctx, guest.MakeDir{Path: dir + "/closed/in/side", Parents: true}))
	must(t, os.Chmod(dir+"/closed/in", 0))
	must(t, os.Chmod(dir+"/closed", 0))
	var reasons []string
	_, err = c.ListDir(ctx, guest.ListDir{Path: dir, Depth: 9}, func(f guest.FileInfo) error {
		reasons = append(reasons, f.Path+": "+f.Err)
		return nil
	})
	must(t, err)
	if want := []string{"closed: is not accessible to the user of the sandbox", "rootfile: "}; !slices.Equal(reasons,
		want) {
		t.Errorf("listed %q, want %q", reasons, want)
	}
	must(t, c.Remove(ctx, guest.Remove{Path: dir + "/closed", Recursive: true}))
	onlyEntry(t, dir, "rootfile")
}

// A11: names are bytes.
func TestHostileNames(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	names := []string{"a\nb\r\x1b[2J\xff", "-rf", "..con", "<img src=x onerror=1>", strings.Repeat("a", 255), " ",
		"\u202e", "C:\\x", "%2e%2e%2f", "..."}
	for _, name := range names {
		put(t, dir+"/"+name, name)
	}
	slices.Sort(names)
	got, _ := list(t, c, guest.ListDir{Path: dir})
	if !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	for _, name := range names {
		var b bytes.Buffer
		if _, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/" + name}, &b); err != nil ||
			b.String() != name {
			t.Errorf("%q: %q, %v", name, &b, err)
		}
	}
	_, err := c.Stat(limit(t), guest.Stat{Path: dir + "/x\x1b[2J\xff"})
	wantError(t, err, sandbox.NotFound, syscall.ENOENT, `/x\x1b[2J\xff" does not exist`)
}

func TestListInOrderToADepthAndALimit(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: dir + "/b/c/d", Parents: true}))
		for _, f := range []string{"a", "b/a", "b/c/x", "b.txt", "z"} {
			put(t, dir+"/"+f, f)
		}
		must(t, os.Symlink("b", dir+"/link"))
		for _, test := range []struct {
			req  guest.ListDir
			want string
			more bool
		}{
			{guest.ListDir{}, "a b b.txt link z", false},
			{guest.ListDir{Depth: 2}, "a b b/a b/c b.txt link z", false},
			{guest.ListDir{Depth: 99}, "a b b/a b/c b/c/d b/c/x b.txt link z", false},
			{guest.ListDir{Depth: 99, Limit: 4}, "a b b/a b/c", true},
			{guest.ListDir{Limit: 5}, "a b b.txt link z", false},
		} {
			test.req.Path = dir + "/"
			got, more := list(t, c, test.req)
			if strings.Join(got, " ") != test.want || more != test.more {
				t.Errorf("%+v: %q, %v", test.req, got, more)
			}
		}
		_, err := c.ListDir(limit(t), guest.ListDir{Path: dir + "/z"}, nil)
		wantError(t, err, sandbox.Invalid, syscall.ENOTDIR, "not a folder")
	})
}

// A12: a folder with more entries than the guest keeps names in memory is listed in order, each entry once.
func TestListOfAFolderThatIsVeryFull(t *testing.T) {
	const n = 10_000 // with their fixed cost, more than heldNames
	c, dir := serve(t, self()), dirFor(t, self())
	fill(t, dir, n)
	last, count := "", 0
	_, err := c.ListDir(limit(t), guest.ListDir{Path: dir, Limit: n + 1}, func(f guest.FileInfo) error {
		if f.Path <= last {
			t.Fatalf("%s after %s", f.Path, last)
		}
		last, count = f.Path, count+1
		return nil
	})
	if err != nil || count != n {
		t.Fatalf("%d of %d entries, %v", count, n, err)
	}
	got, more := list(t, c, guest.ListDir{Path: dir, Limit: n - 1})
	if len(got) != n-1 || !more {
		t.Errorf("%d entries with a limit of %d, more %v", len(got), n-1, more)
	}
	must(t, c.Remove(limit(t), guest.Remove{Path: dir, Contents: true}))
	onlyEntry(t, dir)
}

func fill(t testing.TB, dir string, n int) {
	t.Helper()
	d, err := os.Open(dir)
	must(t, err)
	defer d.Close()
	for i := range n {
		must(t, unix.Mknodat(int(d.Fd()), fmt.Sprintf("%0200d", i), unix.S_IFREG|0o644, 0))
	}
}

// Folders far deeper than a path can name, or than a process has descriptors.
func TestVeryDeepTree(t *testing.T) {
	user := self()
	if user.UID == 0 {
		user = someone
	}
	c, dir := serve(t, user), dirFor(t, user)
	const depth = 2000
	deepen(t, dir, depth)
	got, _ := list(t, c, guest.ListDir{Path: dir, Depth: depth})
	longest := 0
	for _, path := range got {
		longest = max(longest, len(path))
	}
	if longest >= guest.MaxPath || longest < guest.MaxPath-300 {
		t.Errorf("the longest path has %d bytes", longest)
	}
	entries := 0
	must(t, c.Pack(limit(t), guest.Pack{Base: dir}, func(f guest.FileInfo, _ io.Reader) error {
		entries++
		return nil
	}))
	if entries != len(got) {
		t.Errorf("packed %d entries, listed %d", entries, len(got))
	}
	must(t, c.Remove(limit(t), guest.Remove{Path: dir + "/d", Recursive: true}))
	onlyEntry(t, dir, "f")
}

// deepen makes a chain of folders with a file in each, as the owner of the first.
func deepen(t testing.TB, dir string, depth int) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(dir, &st))
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		must(t, unix.Fchownat(fd, "d", int(st.Uid), int(st.Gid), 0))
		must(t, unix.Mknodat(fd, "f", unix.S_IFREG|0o644, 0))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestMountsAreNotEmptied(t *testing.T) {
	c, dir := startInit(t).Client(t), t.TempDir()
	must(t, os.MkdirAll(dir+"/top/mnt", 0o755))
	must(t, os.Mkdir(dir+"/kept", 0o755))
	put(t, dir+"/kept/f", "x")
	// A mount of the same file system has the same device number. It is made in the guest's namespace, so that the host
	// has none.
	if r := run(t, c, shell("mount --bind "+dir+"/kept "+dir+"/top/mnt")); r.exited.Code != 0 {
		t.Fatal(r.stderr.String())
	}
	err := c.Remove(limit(t), guest.Remove{Path: dir + "/top", Recursive: true})
	wantError(t, err, sandbox.Invalid, 0, "mount point")
	onlyEntry(t, filepath.Join(dir, "kept"), "f")
}
