package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// archive makes a tar archive; each header's size is that of its content.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == 0 {
			h.Typeflag, content = tar.TypeReg, "content"
			h.Size = int64(len(content))
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

func TestTarOutAndIn(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		from, to := dir+"/from", dir+"/to"
		long := strings.Repeat("long", 50) + "/" + strings.Repeat("name", 50) + "\xff\n"
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: from}))
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: to}))
		_, err := unpack(t, c, guest.Unpack{Base: from}, file("a", "1"), folder("empty"), file(long, "2"), link("l", "/etc/passwd"), file("z", ""))
		must(t, err)
		must(t, os.Chmod(from+"/a", 0o4750))
		var b bytes.Buffer
		omitted, err := c.PackTar(limit(t), guest.Pack{Base: from}, &b)
		if err != nil || len(omitted) > 0 {
			t.Fatalf("omitted %v, %v", omitted, err)
		}
		made, err := c.UnpackTar(limit(t), guest.Unpack{Base: to}, &b)
		must(t, err)
		if made.Files != 6 || made.Bytes != 2 {
			t.Errorf("made %+v", made)
		}
		if got, want := brief(pack(t, c, guest.Pack{Base: to})), brief(pack(t, c, guest.Pack{Base: from})); got != want {
			t.Errorf("unpacked %q, want %q", got, want)
		}
		if info, _ := os.Stat(to + "/a"); info.Mode() != 0o750 {
			t.Errorf("mode %v, want 0750 without the set-id bit", info.Mode())
		}
		omitted, err = c.PackTar(limit(t), guest.Pack{Base: from, MaxFiles: 1}, io.Discard)
		if err != nil || len(omitted) != 5 || !strings.Contains(omitted[0].Omitted, "over the limit") {
			t.Errorf("omitted %v, %v", omitted, err)
		}
	})
}

// A07: archives made by an attacker.
func TestHostileTar(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	base, outside := dir+"/base", t.TempDir()
	must(t, os.Mkdir(base, 0o755))
	evil := tar.Header{Name: "evil"}
	for _, test := range []struct {
		says string
		kind sandbox.Kind
		with []tar.Header
	}{
		{`holds ".."`, sandbox.Invalid, []tar.Header{{Name: "../../../evil"}}},
		{`holds ".."`, sandbox.Invalid, []tar.Header{{Name: "a/.."}}},
		{"is absolute", sandbox.Invalid, []tar.Header{{Name: "/evil"}}},
		{"too long", sandbox.TooLarge, []tar.Header{{Name: strings.Repeat("x", 5000)}}},
		{"is too long", sandbox.TooLarge, []tar.Header{{Name: strings.Repeat("x", 256)}}},
		{"lies too deep", sandbox.Invalid, []tar.Header{{Name: strings.Repeat("x/", 400) + "x"}}},
		{"leads through a symbolic link", sandbox.Invalid, []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/evil"}}},
		{"leads through a symbolic link", sandbox.Invalid, []tar.Header{{Name: "m", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "m/d/evil"}}},
		{"is a hard link", sandbox.Invalid, []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}},
		{"is a device", sandbox.Invalid, []tar.Header{{Name: "c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}},
		{"is a device", sandbox.Invalid, []tar.Header{{Name: "b", Typeflag: tar.TypeBlock}}},
		{"is a pipe", sandbox.Invalid, []tar.Header{{Name: "p", Typeflag: tar.TypeFifo}}},
		{"valid target", sandbox.Invalid, []tar.Header{{Name: "s", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("x", 5000)}}},
		{"is a folder", sandbox.Invalid, []tar.Header{{Name: "dup/", Typeflag: tar.TypeDir}, {Name: "dup"}}},
		{"over the limit of entries", sandbox.TooLarge, []tar.Header{{Name: "1"}, {Name: "2"}, {Name: "3/", Typeflag: tar.TypeDir}}},
		// The archive's own last entry is the fourth.
		{"over the limit of bytes", sandbox.TooLarge, []tar.Header{{Name: "1"}, {Name: "2"}, {Name: "3"}}},
	} {
		_, err := c.UnpackTar(limit(t), guest.Unpack{Base: base, MaxFiles: 3, MaxBytes: 20}, archive(t, append(test.with, evil)...))
		wantError(t, err, test.kind, 0, test.says)
		onlyEntry(t, outside)
		onlyEntry(t, dir, "base")
		if _, err := os.Lstat(base + "/evil"); err == nil {
			t.Errorf("%s: what stands behind it was made", test.says)
		}
		must(t, c.Remove(limit(t), guest.Remove{Path: base, Contents: true}))
	}

	// Dropped without an error: owners, set-id bits, extended attributes, the base itself, global records, all but the last
	// of a name.
	_, err := c.UnpackTar(limit(t), guest.Unpack{Base: base}, archive(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "./f", Typeflag: tar.TypeSymlink, Linkname: outside + "/x"},
		tar.Header{Name: "././/f", Mode: 0o6755, Uid: 77, Gid: 77, ModTime: time.Unix(1e9, 0), PAXRecords: map[string]string{"SCHILY.xattr.user.x": "y"}}))
	must(t, err)
	info, err := os.Lstat(base + "/f")
	if err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(time.Unix(1e9, 0)) || get(t, base+"/f") != "content" {
		t.Errorf("%v, %v", info, err)
	}
	onlyEntry(t, outside)
}

func TestTarThatIsCutOrNone(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	whole := archive(t, tar.Header{Name: "f"}).Bytes()
	for _, b := range [][]byte{whole[:100], whole[:515], []byte(strings.Repeat("no tar ", 200))} {
		_, err := c.UnpackTar(limit(t), guest.Unpack{Base: dir}, bytes.NewReader(b))
		wantError(t, err, sandbox.Invalid, 0, "not a whole tar archive")
	}
	gone := errors.New("the client went away")
	_, err := c.UnpackTar(limit(t), guest.Unpack{Base: dir}, io.MultiReader(bytes.NewReader(whole[:515]), errReader{gone}))
	if !errors.Is(err, gone) {
		t.Errorf("error of the reader: %v", err)
	}
	await(t, func() bool { entries, _ := os.ReadDir(dir); return len(entries) == 0 })
}
