package client

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// FuzzTarEntries reads hostile archives: every accepted entry is below the base, of a permitted kind, and within the limits.
func FuzzTarEntries(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "d/", Typeflag: tar.TypeDir}, {Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "../x", Typeflag: tar.TypeReg, Size: 1}, {Name: strings.Repeat("n", 300), Typeflag: tar.TypeReg, Size: 1}} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if h.Size > 0 {
			w.Write([]byte("x"))
		}
		w.Flush()
		f.Add(bytes.Clone(b.Bytes()))
	}
	const maxBytes, maxFiles = 1 << 16, 64
	f.Fuzz(func(t *testing.T, data []byte) {
		in := tarEntries{in: tar.NewReader(bytes.NewReader(data)), bytes: maxBytes, files: maxFiles}
		var bytes uint64
		for files := 0; ; files++ {
			info, content, err := in.next()
			if err != nil {
				return
			}
			if files >= maxFiles {
				t.Fatal("more files than allowed")
			}
			if !isEntryPath(info.Path) || info.Mode > 0o777 || info.Type < guest.FileRegular || info.Type > guest.FileSymlink {
				t.Fatalf("let through: %+v", info)
			}
			n, _ := io.Copy(io.Discard, content)
			if bytes += uint64(n); bytes > maxBytes || info.Type == guest.FileRegular && uint64(n) > info.Size {
				t.Fatalf("%d bytes of %+v", n, info)
			}
		}
	})
}
