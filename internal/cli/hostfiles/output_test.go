package hostfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// host has no places of its own.
var host = Host{Own: func() []string { return nil }}

// hostileNames are paths that a sandbox may return; none may be written.
var hostileNames = []string{
	"", ".", "..", "../up", "a/../../up", "/etc/passwd", "//x", "a//b", "a/./b", "a/", "./a",
	"a\x00b", "line\nbreak", "esc\x1b[31m", "bad\xff", strings.Repeat("n", 300),
}

func TestOutputRefusesNames(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	out, err := host.OpenOutput(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, name := range hostileNames {
		if err := out.Write(sandbox.File{Path: name, Data: []byte("x")}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	for _, place := range []string{parent, dir} {
		entries, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "out" {
				t.Errorf("%s has %q", place, e.Name())
			}
		}
	}
}

func TestOutputModes(t *testing.T) {
	dir := t.TempDir()
	out, err := host.OpenOutput(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for name, mode := range map[string]uint32{"data": 0o666, "program": 0o4777} {
		if err := out.Write(sandbox.File{Path: name, Mode: mode, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]os.FileMode{"data": 0o644, "program": 0o755} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got&^0o022 != want&^0o022 || got&0o022 != 0 || !got.IsRegular() {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}

func FuzzLocalName(f *testing.F) {
	for _, name := range append(hostileNames, "a", "a/b.txt", "émoji 🐍/x") {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		local, err := LocalName(name)
		if err == nil && !filepath.IsLocal(local) {
			t.Errorf("%q became %q", name, local)
		}
	})
}
