package files

import (
	"path"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

func TestPlace(t *testing.T) {
	tr := &Tree{workspace: "/workspace"}
	for _, test := range []struct {
		in, out string
		folder  bool
	}{
		{"f", "/workspace/f", false}, {"a/b/", "/workspace/a/b", true}, {"/etc/x", "/etc/x", false}, {"/", "/", true},
		{"//", "/", true},
		{"/a/../b", "/a/../b", false}, {".", "/workspace/.", false}, {"..a", "/workspace/..a", false},
		{"", "", false}, {"..", "", false}, {"a/../b", "", false}, {"a\x00", "", false},
		{strings.Repeat("x", 4096), "", false},
	} {
		p, err := tr.place(test.in)
		if (err != nil) != (test.out == "") || p.path != test.out || p.folder != test.folder {
			t.Errorf("place(%.20q) = %+v, %v", test.in, p, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a", "a/b", "../a", "/a", "a//b", "./a", "a/", "a\x00", strings.Repeat("x/", 300) + "x",
		"..", "...", "\xff/\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil {
			return
		}
		joined := path.Join("/base", name)
		if joined != "/base/"+name || strings.IndexByte(name, 0) >= 0 || len(name) >= guest.MaxPath {
			t.Errorf("%q is let through, and leads to %q", name, joined)
		}
	})
}

func FuzzShow(f *testing.F) {
	f.Add("/workspace/x.txt")
	f.Add("\x1b[2J\xff\n")
	f.Fuzz(func(t *testing.T, name string) {
		s := show(name)
		if strings.ContainsAny(s, "\x00\x1b\r\n") || len(s) > 10*maxShown+8 {
			t.Errorf("%q is shown as %q", name, s)
		}
	})
}
