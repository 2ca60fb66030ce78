package rootfs

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestLinksOut: what a foreign root shows lies in it, and is opened without following links that are put there later.
func TestLinksOut(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for _, folder := range []string{"usr/bin", "usr/lib", "opt/tool", "opt/fumehood"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"lib": "usr/lib", "usr/lib/python3.11": "python3.12",
		"usr/lib/python3.99": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "usr/lib/python3.12"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/bin/python3"), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	strict := func(steps []confine.Step) {
		t.Helper()
		for _, s := range steps {
			if s.Do == confine.Bind && (s.Flags&confine.NoLinks == 0 || !strings.HasPrefix(s.Source, dir+"/")) {
				t.Errorf("%+v follows links", s)
			}
		}
	}
	// A link to itself ends the search.
	if err := os.Symlink("bin", filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restricted(dir, []string{"missing"}, sandbox.DefaultUser); err == nil {
		t.Error("a program behind a link to itself was found")
	}
	if err := os.Remove(filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	steps, err := System(dir, sandbox.DefaultUser)
	if err != nil {
		t.Fatal(err)
	}
	strict(steps)
	var opt []string
	for _, s := range steps {
		if strings.HasPrefix(s.Target, "opt") {
			opt = append(opt, s.Target)
		}
	}
	if got := strings.Join(opt, " "); got != "opt opt/tool" { // layers of packages are mounted below opt/fumehood
		t.Errorf("of /opt, the root shows %s", got)
	}
	if _, _, err := Restricted(dir, []string{"python3"}, sandbox.DefaultUser); err == nil ||
		!strings.Contains(err.Error(), "leads out of it") {
		t.Errorf("a folder of modules that is a link out of the root: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "usr/lib/python3.99")); err != nil {
		t.Fatal(err)
	}
	steps, _, err = Restricted(dir, []string{"python3"}, sandbox.DefaultUser)
	if err != nil {
		t.Fatal(err)
	}
	strict(steps)
}

// TestWideRoot: a root with many entries in a folder whose entries are mounts is refused.
func TestWideRoot(t *testing.T) {
	for _, folder := range []string{".", "opt"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, folder, "usr"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range maxListed {
			if err := os.Mkdir(filepath.Join(dir, folder, strconv.Itoa(i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := System(dir, sandbox.DefaultUser); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%d entries in %s: %v", maxListed+1, folder, err)
		}
	}
}

// TestLargeTables: Restricted refuses a program with ELF tables beyond its bound.
func TestLargeTables(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "x")
	header := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: 62, Version: 1, Shoff: 64,
		Ehsize: 64, Shentsize: 64, Shnum: 2, Shstrndx: 1}
	var text bytes.Buffer
	for _, part := range []any{header, elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 192, Size: 2 * maxClosureRead}} {
		if err := binary.Write(&text, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, text.Bytes(), 0o755),
		os.Truncate(program, 4*maxClosureRead)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restricted(dir, []string{"x"}, sandbox.DefaultUser); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a table of %d bytes: %v", 2*maxClosureRead, err)
	}
}
