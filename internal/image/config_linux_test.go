package image

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSettings: user and working directory of an image apply where a sandbox can have them, and are reported otherwise.
func TestSettings(t *testing.T) {
	s, long := openStore(t), strings.Repeat("u", maxUser+1)
	deep := strings.Repeat("d/", maxWorkDir) + "d"
	passwd := "app:x:12:12::/:/bin/sh\nodd:x:13:99::/:/bin/sh\nbroken:x:many:1::/:/bin/sh\n" + long + ":x:1:1:\n"
	i, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t,
		entry{0, "etc/real", passwd, 0o644},
		entry{tar.TypeSymlink, "etc/passwd", "/etc/real", 0}, entry{0, "srv/app/file", "", 0o644},
		entry{0, deep + "/file", "", 0o644},
		entry{tar.TypeDir, "closed/", "", 0o700}, entry{0, "closed/in/file", "", 0o644},
		entry{tar.TypeSymlink, "away", "/../../srv/app", 0}))})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, dir string
		uid       uint32
		in, note  string
	}{
		{"", "", 0, "", ""}, {"root", "/", 0, "", ""}, {"0:0", "/workspace", 0, "", ""},
		{"app", "/srv/app", 12, "/srv/app", ""}, {"12", "srv/app/", 12, "/srv/app", ""},
		{"app:root", "", 12, "", "group 0"},
		{"odd", "/away", 13, "/away", "group 99"}, {"broken", "", 0, "", "no usable id"},
		{"none", "/none", 0, "", "/none"}, {"4294967295", "", 0, "", "does not have"},
		{"", "/closed/in", 0, "", "cannot enter"}, {"", "/tmp/x", 0, "", "do not show"},
		{"", "/var/tmp/x", 0, "", "do not show"},
		{"", "/srv/app/file", 0, "", "cannot enter"}, {"", "/" + deep, 0, "", "cannot enter"},
		{long, "", 0, "", "is too long"},
	} {
		i.Config = Config{User: c.user, Dir: c.dir}
		got := s.settings(i)
		if got.User != (sandbox.User{UID: c.uid, GID: c.uid}) || got.WorkDir != c.in ||
			(got.Note == "") != (c.note == "") || !strings.Contains(got.Note, c.note) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestLongPasswd: each request looks for the user of its image, however many lines and fields the file has.
func TestLongPasswd(t *testing.T) {
	s := openStore(t)
	i, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t,
		entry{0, "etc/passwd", strings.Repeat(":::::::\n", maxPasswd), 0o644}))})
	if err != nil {
		t.Fatal(err)
	}
	i.Config = Config{User: "app"}
	if n := testing.AllocsPerRun(1, func() { s.settings(i) }); n > 100 {
		t.Errorf("%v pieces of memory", n)
	}
}
