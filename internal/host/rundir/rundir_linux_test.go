package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// stranger is another user.
const stranger = 65533

// TestJudge: code may lie anywhere, if nobody else can have written it or put it there.
func TestJudge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give files to another user")
	}
	const sticky = os.ModeSticky | 0o777
	toGroup := func(_, file string) error { return errors.Join(os.Chown(file, 0, stranger), os.Chmod(file, 0o775)) }
	for _, c := range []struct {
		name   string
		up     os.FileMode // of the folder top/up
		change func(up, file string) error
		bad    string // what is refused, below top; "" is none
		says   string // of it
	}{
		{"root's", 0o755, nil, "", ""},
		{"root's in a sticky folder", sticky, nil, "", ""},
		{"in a folder that others write to", 0o777, nil, "up", " and could"},
		{"in a stranger's folder", 0o755, func(up, _ string) error { return os.Chown(up, stranger, stranger) }, "up",
			" belongs to"},
		{"a stranger's in a sticky folder", sticky, func(_, file string) error {
			return os.Chown(file, stranger,
				stranger)
		},
			"up/file", " belongs to"},
		{"written by root's group", 0o755, func(_, file string) error { return os.Chmod(file, 0o775) }, "", ""},
		{"written by a group", 0o755, toGroup, "up/file", " and could"},
		{"written by a group, in a closed folder", 0o700, toGroup, "up/file", " and could"},
		{"a second name in a sticky folder", sticky, func(up, file string) error { return os.Link(file, up+"/other") },
			"up/file", " is a link"},
		{"a link to a stranger's", 0o755, func(up, file string) error {
			return errors.Join(os.Rename(file, up+"/other"), os.Symlink("other", file),
				os.Chown(up+"/other", stranger, stranger))
		}, "up/other", " belongs to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "rundir-") // others cannot enter t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(top) })
			up, file := filepath.Join(top, "up"), filepath.Join(top, "up", "file")
			err = errors.Join(os.Chmod(top, 0o755), os.Mkdir(up, 0o700), os.Chmod(up, c.up),
				os.WriteFile(file, nil, 0o700))
			if c.change != nil && err == nil {
				err = c.change(up, file)
			}
			if err != nil {
				t.Fatal(err)
			}
			// A given folder is trusted because of its owner, but not other writers.
			if err := Judge(file, up); (err == nil) != (c.bad == "" || c.bad == "up") {
				t.Errorf("given the folder: %v", err)
			}
			err = Judge(file, "")
			if c.bad == "" && err != nil || c.bad != "" && (sandbox.FixOf(err) == "" ||
				!strings.Contains(err.Error(), filepath.Join(top, c.bad)+c.says)) {
				t.Errorf("got %v", err)
			}
			if err := Judge(up, ""); (err == nil) != (c.up&0o022 == 0 && c.bad != "up") {
				t.Errorf("the folder: %v", err)
			}
			if err := Judge(filepath.Join(up, "none"), ""); c.bad != "up" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what is not there: %v", err)
			}
		})
	}
}

// TestWhoCouldHavePlantedIt opens run folders below a folder that everybody can enter, such as /run and /tmp.
func TestWhoCouldHavePlantedIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give folders to another user")
	}
	dir := func(path string, mode os.FileMode) error {
		return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode))
	}
	const sticky = os.ModeSticky | 0o777
	for _, c := range []struct {
		name string
		make func(top string) error // top/up/run is opened
		bad  string                 // the element that is refused, below top; "" is none
	}{
		{"nothing there", func(string) error { return nil }, ""},
		{"in a sticky folder", func(top string) error { return dir(top+"/up", sticky) }, ""},
		{"its own", func(top string) error { return errors.Join(dir(top+"/up", 0o755), dir(top+"/up/run", 0o700)) },
			""},
		{"written by a group, below what is closed", func(top string) error {
			return errors.Join(os.Chmod(top, 0o700), dir(top+"/up", 0o777))
		}, ""},
		{"by links of root's", func(top string) error {
			return errors.Join(dir(top+"/real", 0o755), os.Symlink("second", top+"/up"),
				os.Symlink(top+"/real", top+"/second"))
		}, ""},
		{"open", func(top string) error { return errors.Join(dir(top+"/up", 0o755), dir(top+"/up/run", 0o750)) },
			"up/run"},
		{"a stranger's", func(top string) error {
			return errors.Join(dir(top+"/up", sticky), dir(top+"/up/run", 0o700),
				os.Chown(top+"/up/run", stranger, stranger))
		}, "up/run"},
		{"a link", func(top string) error {
			return errors.Join(dir(top+"/own", 0o700), dir(top+"/up", sticky), os.Symlink(top+"/own", top+"/up/run"))
		}, "up/run"},
		{"a file", func(top string) error {
			return errors.Join(dir(top+"/up", 0o755), os.WriteFile(top+"/up/run", nil, 0o600))
		}, "up/run"},
		{"a mount in a sticky folder", func(top string) error {
			return errors.Join(dir(top+"/up", sticky), dir(top+"/up/run", 0o700),
				unix.Mount("none", top+"/up/run", "tmpfs", 0, "mode=0700,size=4k"))
		}, "up/run"},
		{"written by a group above", func(top string) error {
			return errors.Join(dir(top+"/up", 0o770), os.Chown(top+"/up", 0, stranger))
		}, "up"},
		{"written by others above", func(top string) error { return dir(top+"/up", 0o757) }, "up"},
		{"a stranger's above", func(top string) error {
			return errors.Join(dir(top+"/up", 0o755), os.Chown(top+"/up", stranger, stranger))
		}, "up"},
		{"a stranger's sticky one above", func(top string) error {
			return errors.Join(dir(top+"/up", sticky), os.Chown(top+"/up", stranger, stranger))
		}, "up"},
		{"a stranger's link above", func(top string) error {
			return errors.Join(dir(top+"/own", 0o700), os.Symlink("own", top+"/up"),
				os.Lchown(top+"/up", stranger, stranger))
		}, "up"},
		{"behind a link", func(top string) error {
			return errors.Join(dir(top+"/open", 0o777),
				os.Symlink("open", top+"/up"))
		}, "open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "rundir-") // others cannot enter t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			run := filepath.Join(top, "up", "run")
			t.Cleanup(func() { _ = os.RemoveAll(top) })
			if err := errors.Join(os.Chmod(top, 0o755), c.make(top)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(run, unix.MNT_DETACH) })
			if c.bad == "" {
				if _, err := Open(run); err != nil && !errors.Is(err, fs.ErrNotExist) || Check(run) != nil {
					t.Errorf("before it is made: %v", err)
				}
				root, err := Make(run)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				there, wantErr := os.Lstat(root.Name()) // by a name without links
				info, err := root.Stat(".")
				if err = errors.Join(err, wantErr); err != nil || !os.SameFile(there, info) ||
					info.Mode() != os.ModeDir|0o700 {
					t.Errorf("%s is %v, %v", root.Name(), info, err)
				}
				if real, err := filepath.EvalSymlinks(run); real != root.Name() {
					t.Errorf("it is at %s, not %s: %v", root.Name(), real, err)
				}
				return
			}
			for _, open := range []func(string) (*os.Root, error){Open, Make} {
				_, err := open(run)
				if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(),
					filepath.Join(top, c.bad)) ||
					sandbox.FixOf(err) == "" {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}
