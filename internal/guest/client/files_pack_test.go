package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// item is an entry with its content.
type item struct {
	guest.FileInfo
	content string
}

func file(path, content string) item {
	return item{guest.FileInfo{Path: path, Type: guest.FileRegular, Size: uint64(len(content))}, content}
}

func folder(path string) item { return item{FileInfo: guest.FileInfo{Path: path, Type: guest.FileDir}} }

func link(path, target string) item {
	return item{FileInfo: guest.FileInfo{Path: path, Type: guest.FileSymlink, Target: target}}
}

func unpack(t testing.TB, c *client.Client, req guest.Unpack, items ...item) (guest.Unpacked, error) {
	t.Helper()
	return c.Unpack(limit(t), req, func() (guest.FileInfo, io.Reader, error) {
		if len(items) == 0 {
			return guest.FileInfo{}, nil, io.EOF
		}
		i := items[0]
		items = items[1:]
		return i.FileInfo, strings.NewReader(i.content), nil
	})
}

func pack(t testing.TB, c *client.Client, req guest.Pack) (items []item) {
	t.Helper()
	must(t, c.Pack(limit(t), req, func(info guest.FileInfo, content io.Reader) error {
		b, err := io.ReadAll(content)
		if client.HasContent(&info) && uint64(len(b)) != info.Size || !client.HasContent(&info) && len(b) > 0 {
			t.Errorf("%s: %d bytes of %d", info.Path, len(b), info.Size)
		}
		items = append(items, item{info, string(b)})
		return err
	}))
	return items
}

// brief renders items briefly.
func brief(items []item) string {
	var words []string
	for _, i := range items {
		word := i.Path
		switch {
		case i.Err != "":
			word += "!" + i.Err
		case i.Omitted != "":
			word += "?" + i.Omitted
		case i.Type == guest.FileDir:
			word += "/"
		case i.Type == guest.FileSymlink:
			word += "->" + i.Target
		default:
			word += "=" + i.content
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestUnpackThenPack(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		large := strings.Repeat("x", 200_000)
		exe := file("bin/tool", "run")
		exe.Mode, exe.MTime = 0o7755, 1e18
		made, err := unpack(t, c, guest.Unpack{Base: dir}, file("a", "1"), folder("empty"), exe,
			file("deep/er/f", large),
			link("out", "/etc/passwd"), file("a", "2"), file("none", ""))
		must(t, err)
		if made.Files != 7 || made.Bytes != uint64(len(large))+5 {
			t.Errorf("made %+v", made)
		}
		var st unix.Stat_t
		must(t, unix.Stat(dir+"/bin/tool", &st))
		if st.Mode&0o7777 != 0o755 || st.Mtim.Nano() != 1e18 {
			t.Errorf("mode %o, time %d", st.Mode&0o7777, st.Mtim.Nano())
		}
		got := strings.ReplaceAll(brief(pack(t, c, guest.Pack{Base: dir})), large, "LARGE")
		if want := "a=2 bin/ bin/tool=run deep/ deep/er/ deep/er/f=LARGE empty/ none= out->/etc/passwd"; got != want {
			t.Errorf("packed\n%s, want\n%s", got, want)
		}
		got = brief(pack(t, c, guest.Pack{Base: dir, Paths: []string{"bin/tool", "gone", "empty", "a/x", "out/x", "a"},
			MaxBytes: 3, MaxFiles: 9}))
		if want := "bin/tool=run gone!does not exist empty/ a/x!is not a folder, or something above it is not " +
			"out/x!contains a symbolic link, which is not followed here, or a loop of links a?over the limit of 3 bytes in all"; got != want {
			t.Errorf("packed\n%s, want\n%s", got, want)
		}
		got = brief(pack(t, c, guest.Pack{Base: dir, MaxFiles: 2}))
		if !strings.HasPrefix(got, "a=2 bin/ bin/tool?over the limit of 2 files deep?") {
			t.Errorf("packed %s", got)
		}
	})
}

func TestPackOfWhatIsNoFile(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	must(t, unix.Mkfifo(dir+"/pipe", 0o644))
	must(t, unix.Mknod(dir+"/sock", unix.S_IFSOCK|0o644, 0))
	must(t, os.WriteFile(dir+"/sparse", nil, 0o644))
	must(t, os.Truncate(dir+"/sparse", 1<<40))
	got := brief(pack(t, c, guest.Pack{Base: dir, MaxBytes: 1 << 20}))
	if want := "pipe?not a regular file sock?not a regular file sparse?over the limit of 1048576 bytes in all"; got != want {
		t.Errorf("packed %s", got)
	}
	var b bytes.Buffer
	_, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/sparse", Offset: 1 << 39, Length: 10}, &b)
	if err != nil || b.String() != strings.Repeat("\x00", 10) {
		t.Errorf("part of a sparse file: %q, %v", &b, err)
	}
	_, err = c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/pipe"}, io.Discard)
	wantError(t, err, sandbox.Invalid, 0, "not a regular file")
}

// A07, A09: what an archive may not contain, whoever reads it on the host.
func TestUnpackRefuses(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		outside := t.TempDir()
		put(t, outside+"/canary", "alive")
		base := dir + "/base"
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: base}))
		must(t, os.Symlink(outside, base+"/planted"))
		hard := item{FileInfo: guest.FileInfo{Path: "f", Type: guest.FileDevice}}
		for _, items := range [][]item{
			{file("../evil", "x")}, {file("a/../../evil", "x")}, {file("/evil", "x")}, {file("", "x")},
			{file("a\x00b", "x")},
			{file(".", "x")},
			{file("a//b", "x")}, {file("a/", "x")}, {file("./a", "x")}, {folder("../evil")}, {link("../evil", "x")},
			{file("planted/evil", "x")}, {file("planted/d/evil", "x")}, {folder("planted")}, {folder("planted/evil")},
			{link("planted/evil", "x")},
			{link("l", outside), file("l/evil", "x")}, {link("l2", "."), link("l2/l3", ".."), file("l2/l3/evil", "x")},
			{hard}, {item{FileInfo: guest.FileInfo{Path: "f", Type: 99}}}, {link("l4", "")}, {link("l5", "a\x00b")},
			{file(strings.Repeat("x", 256), "")}, {file(strings.Repeat("x/", 2500)+"x", "")},
			{file(strings.Repeat("x/", 300)+"x", "")},
			{folder("d"), file("d", "x")}, {file("q", "x"), file("q/r", "x")},
		} {
			_, err := unpack(t, c, guest.Unpack{Base: base}, items...)
			if kind := sandbox.KindOf(err); err == nil || kind != sandbox.Invalid && kind != sandbox.TooLarge {
				t.Errorf("%.60s: %v of kind %v", brief(items), err, kind)
			}
		}
		onlyEntry(t, outside, "canary")
		onlyEntry(t, dir, "base")
		// A hard-linked file and a symbolic link are replaced, not written through.
		put(t, dir+"/other", "mine")
		must(t, os.Link(dir+"/other", base+"/hard"))
		must(t, os.Symlink(dir+"/other", base+"/soft"))
		_, err := unpack(t, c, guest.Unpack{Base: base}, file("hard", "new"), file("soft", "new"))
		must(t, err)
		if get(t, dir+"/other") != "mine" || get(t, base+"/hard") != "new" || get(t, base+"/soft") != "new" {
			t.Error("an unpacked file was written through a link")
		}
		_, err = unpack(t, c, guest.Unpack{Base: base, MaxBytes: 3}, file("x1", "12"), file("x2", "12"))
		wantError(t, err, sandbox.TooLarge, 0, "x2 is over the limit of 3 bytes in all")
		if get(t, base+"/x1") != "12" {
			t.Error("the entry before the one that failed is not whole")
		}
		if _, err := os.Lstat(base + "/x2"); err == nil {
			t.Error("the entry that failed is there")
		}
	})
}

// A10: content always matches its size, whatever the code does to the file meanwhile. The guest reads ahead only as far
// as the stream's credit, so changes before the host takes the first byte happen in the middle of the file.
func TestFileThatShrinksAndGrowsWhileItIsRead(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	const size = 8 << 20
	put(t, dir+"/f", "")
	put(t, dir+"/g", "after")
	for to, want := range map[int64]string{0: "f f!shrank g", size / 2: "f f!shrank g", 2 * size: "f g"} {
		var got []string
		must(t, os.Truncate(dir+"/f", size))
		must(t, c.Pack(limit(t), guest.Pack{Base: dir}, func(info guest.FileInfo, content io.Reader) error {
			if info.Path == "f" && info.Err == "" {
				must(t, os.Truncate(dir+"/f", to))
			}
			if strings.Contains(info.Err, "shrank") {
				info.Path += "!shrank"
			}
			got = append(got, info.Path)
			b, err := io.ReadAll(content)
			if client.HasContent(&info) && uint64(len(b)) != info.Size || info.Path == "g" && string(b) != "after" {
				t.Errorf("%s: %d bytes of %d", info.Path, len(b), info.Size)
			}
			return err
		}))
		if strings.Join(got, " ") != want {
			t.Errorf("packed %q, want %q", got, want)
		}
		must(t, os.Truncate(dir+"/f", size))
		var n counter
		_, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/f"}, writerFunc(func(p []byte) (int, error) {
			must(t, os.Truncate(dir+"/f", to))
			return n.Write(p)
		}))
		if err != nil || n > size || n == size != (to > size) {
			t.Errorf("read %d bytes of a file that became one of %d: %v", n, to, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// F11: the code swaps a folder for a link while the host writes into it.
func TestWritesWhileTheCodeSwapsALink(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		outside := dirFor(t, someone)
		must(t, os.Chmod(outside, 0o777)) // only the client's and guest's rules protect it
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: dir + "/d"}))
		must(t, os.Symlink(outside, dir+"/l"))
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/l", unix.RENAME_EXCHANGE)
			}
		})
		defer func() { close(stop); swapping.Wait() }()
		await(t, func() bool { // a write that follows links does leave
			os.WriteFile(dir+"/d/control", nil, 0o644)
			return os.Remove(outside+"/control") == nil
		})
		writes := 10_000
		if testing.Short() {
			writes = 1000
		}
		refused, made := 0, 0
		// until both were met
		for ctx := limit(t); made < writes || (refused == 0 || refused == made) && ctx.Err() == nil; made++ {
			var err error
			switch made % 3 {
			case 0:
				_, err = unpack(t, c, guest.Unpack{Base: dir}, file("d/f", "x"))
			case 1:
				err = c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/d/g", MakeParent: true, Atomic: true},
					strings.NewReader("x"))
			case 2:
				err = c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/d/sub/h", MakeParent: true},
					strings.NewReader("x"))
			}
			if err != nil {
				refused++
			}
			if kind := sandbox.KindOf(err); err != nil && kind == sandbox.Unavailable {
				t.Fatal(err)
			}
		}
		onlyEntry(t, outside)
		if refused == 0 || refused == made {
			t.Errorf("%d of %d writes met the link: the race was not run", refused, made)
		}
	})
}

// Removing the code's files never leaves the tree.
func TestRemovalWhileTheCodeSwapsALink(t *testing.T) {
	c, dir, outside := serve(t, self()), t.TempDir(), t.TempDir()
	for i := range 50 {
		put(t, outside+"/"+strconv.Itoa(i), "x")
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.MkdirAll(dir+"/t/d/e", 0o755)
			os.Rename(dir+"/t/d", dir+"/t/d2")
			os.Symlink(outside, dir+"/t/d")
		}
	})
	removals := 2000
	if testing.Short() {
		removals = 500
	}
	for range removals {
		err := c.Remove(limit(t), guest.Remove{Path: dir + "/t", Recursive: true})
		if kind := sandbox.KindOf(err); err != nil && kind != sandbox.NotFound && kind != sandbox.Invalid {
			t.Error(err)
		}
	}
	close(stop)
	swapping.Wait()
	os.Remove(outside + "/e") // made through the link by the loop above
	if entries, _ := os.ReadDir(outside); len(entries) != 50 {
		t.Errorf("%d of 50 files outside are left", len(entries))
	}
}

// One gibibyte passes through with the memory of a few messages, on both sides.
func TestLargeStreamsTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: a budget of memory")
	}
	g := startGuest(t, 0)
	c, dir := g.Client(t), t.TempDir()
	put(t, dir+"/large", "")
	must(t, os.Truncate(dir+"/large", 1<<30))
	before, host := peak(t, g.PID), heap()
	n := counter(0)
	info, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/large"}, &n)
	if err != nil || n != 1<<30 || info.Size != 1<<30 {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	must(t, c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/copy", Atomic: true},
		io.LimitReader(zeroReader{}, 128<<20)))
	if grown := peak(t, g.PID) - before; grown > 16<<10 {
		t.Errorf("the guest grew by %d KiB", grown)
	}
	if grown := int64(heap()) - int64(host); grown > 32<<20 {
		t.Errorf("the host's heap grew by %d bytes", grown)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { return len(p), nil }

// peak returns a process's peak memory, in KiB.
func peak(t testing.TB, pid int) int {
	t.Helper()
	for line := range strings.Lines(get(t, "/proc/"+strconv.Itoa(pid)+"/status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return kib
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// heap returns how much memory this process's heap holds; it shrinks late.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

// Calls that wait for their reader block no others.
func TestSlowReadersHoldUpNobody(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		put(t, dir+"/large", "")
		must(t, os.Truncate(dir+"/large", 64<<20))
		ctx, cancel := context.WithCancel(limit(t))
		var slow sync.WaitGroup
		blocked := make(chan struct{}, 32)
		for i := range 32 {
			slow.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = c.ReadFile(ctx, guest.ReadFile{Path: dir + "/large"}, blockedWriter{ctx, blocked})
				} else {
					err = c.Pack(ctx, guest.Pack{Base: dir, Paths: []string{"large"}},
						func(guest.FileInfo, io.Reader) error {
							blocked <- struct{}{}
							<-ctx.Done()
							return ctx.Err()
						})
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("a canceled call: %v", err)
				}
			})
		}
		for range 32 {
			<-blocked
		}
		put(t, dir+"/small", "quick")
		for range 100 {
			var b bytes.Buffer
			_, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/small"}, &b)
			if err != nil || b.String() != "quick" {
				t.Fatalf("%q, %v", &b, err)
			}
		}
		cancel()
		slow.Wait()
	})
}

type blockedWriter struct {
	ctx     context.Context
	blocked chan<- struct{}
}

func (w blockedWriter) Write([]byte) (int, error) {
	w.blocked <- struct{}{}
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// When the host gives a call up, the guest ends it and closes its descriptors.
func TestGivenUpCallsLeaveNothing(t *testing.T) {
	g := startGuest(t, 0)
	c, dir := g.Client(t), dirFor(t, self())
	put(t, dir+"/large", "")
	must(t, os.Truncate(dir+"/large", 1<<30))
	for i := range 2000 {
		put(t, dir+"/"+strconv.Itoa(i), "x")
	}
	enough := errors.New("enough")
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/" + strconv.Itoa(g.PID) + "/fd")
		must(t, err)
		return len(entries)
	}
	round := func() {
		_, err := c.ReadFile(limit(t), guest.ReadFile{Path: dir + "/large"}, failingWriter{enough})
		_, err2 := c.ListDir(limit(t), guest.ListDir{Path: dir}, func(guest.FileInfo) error { return enough })
		err3 := c.Pack(limit(t), guest.Pack{Base: dir}, func(guest.FileInfo, io.Reader) error { return enough })
		err4 := c.Watch(limit(t), guest.Watch{Path: dir}, func() { put(t, dir+"/0", "y") },
			func(guest.Changed) error { return enough })
		_, err5 := c.Unpack(limit(t), guest.Unpack{Base: dir}, func() (guest.FileInfo, io.Reader,
			error) {
			return guest.FileInfo{}, nil, enough
		})
		if errs := []error{err, err2, err3, err4, err5}; slices.ContainsFunc(errs,
			func(e error) bool { return e != enough }) {
			t.Fatal(errs)
		}
	}
	round()
	var before int
	await(t, func() bool { before = descriptors(); return before < 30 })
	for range 10 {
		round()
	}
	await(t, func() bool { return descriptors() <= before })
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
