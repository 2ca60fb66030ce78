package libexec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const stranger = 65533 // another user

func onlyRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give files to another user")
	}
}

func TestNamedProgramThatOthersMayWrite(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, guestName)
	if err := errors.Join(os.WriteFile(path, []byte("the guest"), 0o700), os.Chmod(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	_, err := Guest(Options{Dir: dir})
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "chmod go-w "+path) {
		t.Errorf("got %v", err)
	}
}

// TestPlantedBeside runs this program in a sticky folder, beside a guest of each owner.
func TestPlantedBeside(t *testing.T) {
	const asked = "LIBEXEC_TEST_FIND"
	if os.Getenv(asked) != "" {
		p, err := Guest(Options{})
		fmt.Printf("found %q, %v\n", p.Source, err)
		return
	}
	onlyRoot(t)
	if len(embedded) > 0 {
		t.Skip("the guest is embedded in this test program")
	}
	dir := openDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	executable, beside := filepath.Join(dir, "fumehood"), filepath.Join(dir, guestName)
	err = errors.Join(os.WriteFile(executable, program, 0o700), os.WriteFile(beside, nil, 0o700),
		os.Chmod(dir, os.ModeSticky|0o777))
	if err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[int]string{
		0:        fmt.Sprintf("found %q, <nil>", beside),
		stranger: fmt.Sprintf("%s belongs to another user (id %d)", beside, stranger),
	} {
		if err := os.Chown(beside, owner, owner); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(executable, "-test.run=^TestPlantedBeside$")
		cmd.Env = append(os.Environ(), asked+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("of %d: %v: %s", owner, err, out)
		}
	}
}

// TestPlantedSource: nothing is built of source that others could have written.
func TestPlantedSource(t *testing.T) {
	onlyRoot(t)
	for name, change := range map[string]func(dir, file string) error{
		"a stranger's root": func(dir, _ string) error { return os.Chown(dir, stranger, stranger) },
		"a stranger's file": func(_, file string) error { return os.Chown(file, stranger, stranger) },
		"a folder that is open": func(_, file string) error {
			return os.Chmod(filepath.Dir(file),
				os.ModeSticky|0o777)
		},
		"a file that is open": func(_, file string) error { return os.Chmod(file, 0o666) },
		"a link to a stranger's": func(dir, file string) error {
			return errors.Join(os.Chown(file, stranger, stranger), os.Rename(file, dir+"/a.txt"),
				os.Symlink("../a.txt", file))
		},
	} {
		dir := openDir(t)
		file := filepath.Join(dir, "a", "a.go")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := guest.sourceKey(dir, guestName); err != nil {
			t.Fatal(err)
		}
		if err := change(dir, file); err != nil {
			t.Fatal(err)
		}
		if _, err := guest.sourceKey(dir, guestName); sandbox.KindOf(err) != sandbox.Unavailable ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlaces: the places closed to code are exactly those that this program would use.
func TestPlaces(t *testing.T) {
	if len(embedded) > 0 {
		t.Skip("the programs are embedded in this test program")
	}
	source, known := sourceDir()
	path, err := beside(guestName)
	if err == nil {
		t.Skip("there is a guest beside this test program")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		of     Options
		place  string
		wanted bool
	}{
		{Options{Dir: dir, CacheDir: dir}, filepath.Join(dir, guestName), true},
		{Options{Dir: dir, CacheDir: dir}, path, false},
		{Options{Dir: dir, CacheDir: dir}, source, false},
		{Options{CacheDir: dir}, path, true},
		{Options{CacheDir: dir}, source, known},
		{Options{}, source, false},
	} {
		if got := Places(c.of); slices.Contains(got, c.place) != c.wanted {
			t.Errorf("%+v: %s is wanted: %v; got %q", c.of, c.place, c.wanted, got)
		}
	}
}
