package files

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// FuzzUnpack takes bytes as entries and content. Nothing may appear outside the base, and a planted link must not be
// written through.
func FuzzUnpack(f *testing.F) {
	entry := func(path string, typ guest.FileType, size uint64, target string) []byte {
		m := guest.FileInfo{Path: path, Type: typ, Size: size, Target: target, Mode: 0o6777}
		return guest.Append(nil, &m)
	}
	f.Add(entry("f", guest.FileRegular, 3, ""), []byte("abc"), entry("d/e", guest.FileDir, 0, ""))
	f.Add(entry("l", guest.FileSymlink, 0, "/etc"), []byte{}, entry("l/x", guest.FileRegular, 0, ""))
	f.Add(entry("planted/x", guest.FileRegular, 0, ""), []byte{}, entry("../x", guest.FileRegular, 0, ""))
	f.Fuzz(func(t *testing.T, first, content, second []byte) {
		tr := ownTree(t)
		top := t.TempDir()
		for _, dir := range []string{"/base", "/outside"} {
			check(t, os.Mkdir(top+dir, 0o755))
		}
		check(t, os.Symlink(top+"/outside", top+"/base/planted"))
		base, err := unix.Open(top+"/base", openPath|unix.O_DIRECTORY, 0)
		check(t, err)
		u := &unpacker{tree: tr, maxBytes: 1 << 16, maxFiles: 8, base: base, dir: -1}
		data := guest.Data{Data: content}
		for _, step := range []func() error{
			func() error { return u.entry(first) },
			func() error { return u.content(guest.Append(nil, &data)) },
			func() error { return u.entry(second) },
			u.complete,
		} {
			if step() != nil {
				break
			}
		}
		u.close()
		for dir, n := range map[string]int{top: 2, top + "/outside": 0} {
			if entries, _ := os.ReadDir(dir); len(entries) != n {
				t.Errorf("%s holds %v", dir, entries)
			}
		}
	})
}
