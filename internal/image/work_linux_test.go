package image

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestWork: what a short layer makes expensive counts: paths with links, and a folder that is cleared again and again.
func TestWork(t *testing.T) {
	s := openStore(t)
	spent := 0
	derive := func(parent string, headers ...tar.Header) (string, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Mode = 0o755
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		spent = 0
		return s.Derive(t.Context(), Layer{Parent: parent, Content: &b, Spend: func(entries int, _ int64) error {
			spent += entries
			return nil
		}})
	}
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	base, err := derive("", file("d/e/f"), tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "d"})
	if err != nil || spent > linkEntries {
		t.Fatal(spent, err)
	}
	if _, err := derive(base, file("link/e/g")); err != nil || spent <= linkEntries {
		t.Errorf("a path with a link: %d entries, %v", spent, err)
	}
	s.Limits.Links = 1
	if _, err := derive(base, file("link/1/x"), file("link/2/x")); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("two paths with links where one is allowed: %v", err)
	}
	s.Limits.Entries = 100
	layer := []tar.Header{file("d/1"), file("d/2")}
	for range 50 {
		layer = append(layer, file("d/"+opaque))
	}
	if _, err := derive("", layer...); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("50 removals that read two entries each: %v", err)
	}
}
