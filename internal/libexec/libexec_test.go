package libexec

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/klauspost/compress/zstd"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const guestName = "fumehood-guest-linux-" + runtime.GOARCH

// openDir returns a folder that others can enter, unlike t.TempDir.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "libexec-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNamedFolderMustHoldTheProgram(t *testing.T) {
	dir := t.TempDir()
	_, err := Guest(Options{Dir: dir})
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), guestName) {
		t.Errorf("missing: %v", err)
	}
	path := filepath.Join(dir, guestName)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Guest(Options{Dir: dir}); err == nil {
		t.Error("a folder was taken for the program")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("the guest"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Guest(Options{Dir: dir})
	if err != nil || p.Source != path {
		t.Fatalf("%q, %v", p.Source, err)
	}
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	if err != nil || string(got) != "the guest" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWithoutAPlaceToBuildTheErrorSaysMake(t *testing.T) {
	if len(embedded) > 0 {
		t.Skip("this test program was built with the tag embed: the guest is always found")
	}
	_, err := Guest(Options{})
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "make build") {
		t.Errorf("got %v", err)
	}
}

// ownSource skips a test if this module's source belongs to another user, because nothing is built from it.
func ownSource(t *testing.T) {
	t.Helper()
	if !filepath.IsAbs(sourceFile) { // these tests were compiled with -trimpath
		of := sourceFile
		t.Cleanup(func() { sourceFile = of })
		sourceFile, _ = filepath.Abs("build.go")
	}
	if dir, ok := sourceDir(); ok {
		if err := rundir.Judge(dir, thisProgram()); err != nil {
			t.Skipf("SKIPPED, NOT TESTED: %v", err)
		}
	}
}

func TestBuiltOnceForEachSource(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the guest is a program for Linux")
	}
	ownSource(t)
	cache := t.TempDir()
	o := Options{CacheDir: cache, Arch: runtime.GOARCH}
	first, err := guest.build(o, guestName)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := guest.build(o, guestName)
	if err != nil || second != first {
		t.Fatalf("%q, then %q, %v", first, second, err)
	}
	after, err := os.Stat(second)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it was built twice: %v", err)
	}
}

// TestPlantedBuild: a cached program that others could have written is not used, and nothing is built or removed beside
// it.
func TestPlantedBuild(t *testing.T) {
	if runtime.GOOS != "linux" || len(embedded) > 0 {
		t.Skip("the guest is a program for Linux, and not taken from the cache where it is embedded")
	}
	ownSource(t)
	cache := openDir(t)
	builds := filepath.Join(cache, "guest")
	source, err := moduleSource()
	if err != nil {
		t.Fatal(err)
	}
	key, err := guest.sourceKey(source, guestName)
	if err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(builds, key, guestName)
	err = errors.Join(os.MkdirAll(filepath.Dir(planted), 0o700), os.Chmod(builds, 0o755),
		os.WriteFile(planted, []byte("planted"), 0o700), os.Chmod(filepath.Dir(planted), 0o777))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "others may write") {
			t.Errorf("%s: %v", what, err)
		}
	}
	o := Options{CacheDir: cache, Arch: runtime.GOARCH}
	_, err = guest.find(o)
	refused("a planted program", err)
	if err := errors.Join(os.RemoveAll(filepath.Dir(planted)), os.Chmod(builds, 0o777)); err != nil {
		t.Fatal(err)
	}
	_, err = guest.build(o, guestName)
	refused("a cache that others may write to", err)
}

func TestKeyFollowsTheSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kind := guest
	key := func() string {
		t.Helper()
		k, err := kind.sourceKey(dir, guestName)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write("go.mod", "module x\n")
	write("a/a.go", "package a\n")
	first := key()
	write("a/a_test.go", "package a\n")
	write("a/testdata/b.go", "package b\n")
	write("README.md", "words\n")
	if key() != first {
		t.Error("files that are not built change the key")
	}
	write("a/a.go", "package a // changed\n")
	if key() == first {
		t.Error("a change of the source does not change the key")
	}
	kind = runsc
	first = key()
	write("a/a.go", "package a // changed again\n")
	if key() != first {
		t.Error("files of other programs change the key of runsc")
	}
	write("cmd/fumehood-runsc/entry_linux_amd64.s", "TEXT x(SB)\n")
	if key() == first {
		t.Error("a change of runsc's source does not change its key")
	}
	first = key()
	kind.link = "-E elsewhere"
	if key() == first {
		t.Error("linker options do not change the key")
	}
}

func TestPruneKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		build := filepath.Join(dir, strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(build, 0o700), os.WriteFile(filepath.Join(build, guestName), nil,
			0o500)); err != nil {
			t.Fatal(err)
		}
	}
	none := filepath.Join(dir, "holiday", "pictures")
	long := time.Unix(1, 0)
	if err := errors.Join(os.MkdirAll(none, 0o700), os.Chtimes(filepath.Dir(none), long, long)); err != nil {
		t.Fatal(err)
	}
	if err := guest.prune(dir, "3"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != keptBuilds+1 {
		t.Errorf("%d are left, %v", len(entries), err)
	}
	for _, kept := range []string{filepath.Join(dir, "3"), none} {
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("a build in use, or another folder, was removed: %v", err)
		}
	}
}

// TestSealedProgramRuns copies a real program, runs the copy, and tries to change it.
func TestSealedProgramRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory files require Linux")
	}
	data, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(string, io.Reader) (*os.File, error){"memory": seal, "unlinked": unlinked} {
		f, err := open("echo", bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer f.Close()
		path := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
		// in the child the path leads to its own descriptor of that number, open until exec
		out, err := exec.Command(path, "hello").Output()
		if err != nil || string(out) != "hello\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Errorf("%s: it could be changed", name)
		}
		if name != "memory" {
			continue
		}
		again, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			continue // not root
		}
		if _, err := again.WriteAt([]byte("x"), 0); err == nil {
			t.Errorf("%s: it could be changed when opened anew", name)
		}
		again.Close()
	}
}

// TestCompressed: an embedded program may be compressed.
func TestCompressed(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	program := bytes.Repeat([]byte("a program"), 1<<16)
	for _, data := range [][]byte{program, w.EncodeAll(program, nil)} {
		f, err := Program{Source: "embedded", kind: runsc, data: string(data)}.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := io.ReadAll(io.NewSectionReader(f, 0, maxProgram))
		if err != nil || !bytes.Equal(got, program) {
			t.Errorf("%d bytes of %d, %v", len(got), len(program), err)
		}
	}
}

// TestRunscBeginsInItsOwnEntry: gVisor's start executes five programs, and each would wait 11 ms without the entry
// point.
func TestRunscBeginsInItsOwnEntry(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runsc is a program for Linux")
	}
	path := filepath.Join("bin", "fumehood-runsc-linux-"+runtime.GOARCH) // as make runsc has left it
	if testing.Short() {
		if _, err := os.Stat(path); err != nil {
			t.Skip("make check, or make runsc before: it takes minutes to build")
		}
	} else if built, err := runsc.build(Options{CacheDir: t.TempDir(), Arch: runtime.GOARCH}, "runsc"); err != nil {
		t.Fatal(err)
	} else {
		path = built
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	text := program.Section(".text")
	begins := make([]byte, 4)
	if _, err := text.ReadAt(begins, int64(program.Entry-text.Addr)); err != nil {
		t.Fatal(err)
	}
	// The number of membarrier(2) is where the kernel looks for it.
	want := map[string][]byte{"amd64": {0xb8, 0x44, 0x01, 0x00}, "arm64": {0x68, 0x23, 0x80, 0xd2}}[runtime.GOARCH]
	if !bytes.Equal(begins, want) {
		t.Errorf("it begins with % x, not % x", begins, want)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "'-s -w "+runsc.link+"'") {
		t.Errorf("the Makefile does not say %q of runsc", runsc.link)
	}
}
