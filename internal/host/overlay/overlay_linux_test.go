package overlay

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const first = 1_879_400_000

// open makes a writable root over a folder with some files, and returns it with the path of its whole root.
func open(t *testing.T, l sandbox.Limits) (*Root, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: writable roots need root")
	}
	lower := t.TempDir()
	for name, content := range map[string]string{"a": "a", "d/b": "b", "e/c": "c", "etc/hosts": "its own"} {
		file := filepath.Join(lower, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := New(Options{Lower: lower, Place: t.TempDir(), First: first, IDs: 65536, Limits: l,
		Files: map[string]string{"etc/hosts": "ours"}, Folders: []string{"dev"}})
	if err != nil {
		t.Fatal(err)
	}
	fd := r.Detach()
	t.Cleanup(func() {
		if err := errors.Join(unix.Close(fd), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, "/proc/self/fd/" + strconv.Itoa(fd)
}

// layer returns the changes as "name", "name=content", "name->target", with the type and the mode of other entries.
func layer(t *testing.T, r *Root) []string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Changes(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	var list []string
	for archive := tar.NewReader(&b); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode&0o6000 != 0 {
			t.Errorf("%s has set-id bits", h.Name)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			list = append(list, h.Name)
		case tar.TypeReg:
			list = append(list, h.Name+"="+string(text))
		default:
			list = append(list, h.Name+"->"+h.Linkname)
		}
	}
	slices.Sort(list)
	return list
}

// TestChanges: the changes have removals, new and replaced files, and links as links; devices, pipes, the root's own
// files and names that mean removals are left out.
func TestChanges(t *testing.T) {
	r, root := open(t, sandbox.Limits{DiskBytes: 1 << 20, Inodes: 1000})
	in := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(
		os.Remove(in("a")), os.RemoveAll(in("e")), os.Mkdir(in("e"), 0o755),
		os.WriteFile(in("e/new"), []byte("new"), 0o644), os.WriteFile(in("d/b"), []byte("other"), 0o644),
		os.Symlink("/etc/passwd", in("link")), os.Link(in("e/new"), in("d/same")),
		os.WriteFile(in("set"), nil, 0o644), os.Chmod(in("set"), 0o755|fs.ModeSetuid),
		os.WriteFile(in("etc/hosts"), []byte("changed"), 0o644), os.WriteFile(in("dev/x"), nil, 0o644),
		unix.Mkfifo(in("pipe"), 0o644), unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		os.WriteFile(in(".wh.d"), nil, 0o644), os.MkdirAll(in(".wh.x/y"), 0o755)); err != nil {
		t.Fatal(err)
	}
	want := []string{".wh.a=", "d/", "d/b=other", "d/same=new", "e/", "e/.wh..wh..opq=", "e/new->d/same", "etc/",
		"link->/etc/passwd", "set="}
	list := layer(t, r)
	if slices.Contains(list, "e/new=new") { // the kernel decides which name is the first
		want[3], want[6] = "d/same->e/new", "e/new=new"
	}
	if !slices.Equal(list, want) {
		t.Errorf("the layer has\n%q, want\n%q", list, want)
	}
}

// TestDeepChanges: folders that a layer cannot have are not read, however deep they go.
func TestDeepChanges(t *testing.T) {
	r, root := open(t, sandbox.Limits{DiskBytes: 1 << 20, Inodes: 2000})
	at := root
	for range 300 {
		at = filepath.Join(at, ".wh.a")
	}
	if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if list := layer(t, r); !slices.Equal(list, []string{"etc/"}) {
		t.Errorf("the layer has %d entries", len(list))
	}
}

// TestIDs: user 0 of the root owns the files of the folder below, and the layer has ids of the root.
func TestIDs(t *testing.T) {
	r, root := open(t, sandbox.Limits{DiskBytes: 1 << 20, Inodes: 1000})
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "a"), &st); err != nil || st.Uid != first {
		t.Errorf("a file belongs to %d, %v", st.Uid, err)
	}
	if err := os.Chown(filepath.Join(root, "a"), first+33, first+33); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Changes(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(&b)
	h, err := archive.Next()
	for err == nil && h.Name != "a" {
		h, err = archive.Next()
	}
	if err != nil || h.Uid != 33 || h.Gid != 33 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestBounds: the changes are bounded in bytes and inodes by the kernel.
func TestBounds(t *testing.T) {
	_, root := open(t, sandbox.Limits{DiskBytes: 1 << 20, Inodes: 64})
	err := os.WriteFile(filepath.Join(root, "large"), []byte(strings.Repeat("x", 2<<20)), 0o644)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a file over the limit: %v", err)
	}
	for i := 0; err == nil || i < 64; i++ {
		if err = os.Mkdir(filepath.Join(root, "d"+strconv.Itoa(i)), 0o755); errors.Is(err, unix.ENOSPC) {
			return
		}
	}
	t.Errorf("64 folders more than allowed: %v", err)
}

// TestCanceled: reading the changes ends with its context.
func TestCanceled(t *testing.T) {
	r, _ := open(t, sandbox.Limits{DiskBytes: 1 << 20, Inodes: 64})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Changes(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
