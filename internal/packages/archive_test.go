package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
)

// archiveOf makes an archive of any entries.
func archiveOf(t testing.TB, entries ...tar.Header) []byte {
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	files := tar.NewWriter(packed)
	for _, h := range entries {
		if err := files.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(bytes.Repeat([]byte{'x'}, int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const fuzzedBytes = 4096 // that the files of a fuzzed archive may have

// FuzzUnpack: whatever an archive holds, only regular files come of it, below the draft, not more than are counted and
// allowed.
func FuzzUnpack(f *testing.F) {
	good := archiveOf(f, tar.Header{Name: "a/b.py", Mode: 0o755, Size: 5},
		tar.Header{Name: strings.Repeat("long/", 60) + "c", Size: 1})
	f.Add(good)
	f.Add(good[:len(good)/2])
	for _, h := range []tar.Header{
		{Name: "/etc/x", Size: 1}, {Name: "../x", Size: 1}, {Name: "a/../../x"},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"},
		{Name: "dev", Typeflag: tar.TypeChar}, {Name: "dir/", Typeflag: tar.TypeDir},
		{Name: "large", Size: fuzzedBytes + 1}, {Name: "pipe", Typeflag: tar.TypeFifo},
		{Name: strings.Repeat("p", maxPath+1)},
	} {
		f.Add(archiveOf(f, h))
	}
	f.Add(archiveOf(f, tar.Header{Name: "twice"}, tar.Header{Name: "twice"}))
	f.Add(archiveOf(f, tar.Header{Name: "a"}, tar.Header{Name: "a/b"}))
	cache, err := OpenCache(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := cache.newDraft()
		if err != nil {
			t.Fatal(err)
		}
		err = unpack(bytes.NewReader(text), d, fuzzedBytes)
		files, size := 0, int64(0)
		walked := filepath.WalkDir(d.Files(), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s has the mode %v (%v)", path, info.Mode(), err)
			}
			files, size = files+1, size+info.Size()
			return nil
		})
		if walked != nil || size > fuzzedBytes {
			t.Errorf("%d bytes: %v", size, walked)
		}
		if err == nil && (files != len(d.files) || size > d.bytes) {
			t.Errorf("%d files with %d bytes are there, %d with %d are counted", files, size, len(d.files), d.bytes)
		}
		if err := d.discard(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(filepath.Join(cache.dir, "work")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

// FuzzParseAnswer: an accepted answer can be looked up, used and stored.
func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"digest":"` + strings.Repeat("0a", 32) +
		`","packages":[{"name":"numpy","version":"2.0"}],"lock":"numpy==2.0","requested":["numpy"],` +
		`"made":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"digest":"../../../etc","requested":["\u001b[2J"],"made":"9999-01-01T00:00:00Z"} {}`))
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAnswer(text, func(lock string) bool { return strings.HasPrefix(lock, "n") }, now)
		if err != nil {
			return
		}
		if a.Digest != "" && !trees.IsDigest(a.Digest) || a.Made.After(now) || a.Lock != "" &&
			a.Lock[0] != 'n' {
			t.Errorf("taken: %+v", a)
		}
		for _, name := range append(a.Requested, a.Missing...) {
			if plainText(name) != name {
				t.Errorf("taken: %q", name)
			}
		}
	})
}
