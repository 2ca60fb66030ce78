package hostbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The victim cleans up and makes an instance; the attacker came first.
const (
	victim   = 65534
	attacker = 65533
	envRun   = "FUMEHOOD_TEST_PLANTED" // the run folder, for the process that is the victim
)

// answer is what the victim's clean-up returned.
type answer struct {
	Reap, Open         string
	ReapKind, OpenKind sandbox.Kind
	OpenFix            string
}

// scene is a folder writable by everyone, like /tmp, and the victim's files elsewhere.
type scene struct {
	*testing.T
	run     string // in the shared folder
	home    string
	process *exec.Cmd
}

// plant makes files and missing folders owned by owner. A text that begins with "-> " makes a link.
func (s *scene) plant(owner int, files map[string]string) {
	s.Helper()
	mode := os.FileMode(0o700)
	if owner == attacker {
		mode = 0o777 // the victim must be able to enter
	}
	for name, text := range files {
		path := filepath.Join(s.run, name)
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			if _, err := os.Lstat(dir); err == nil {
				break
			}
			defer func() {
				if err := errors.Join(os.Chown(dir, owner, owner), os.Chmod(dir, mode)); err != nil {
					s.Error(err)
				}
			}()
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode&0o666))
		}
		if err = errors.Join(err, os.Lchown(path, owner, owner)); err != nil {
			s.Fatal(err)
		}
	}
}

// record is a record with a dead owner and a folder for control groups.
func record(groups string) string {
	text, _ := json.Marshal(instance.Record{PID: 1 << 30, Started: "1", CgroupDirs: []string{groups}})
	return string(text)
}

// TestPlantedBeforeCleanUp: files that others plant in the default run folder (no XDG_RUNTIME_DIR) harm nobody, and are
// reported with a fix. A record in one's own folder is trusted for control groups only.
func TestPlantedBeforeCleanUp(t *testing.T) {
	if run := os.Getenv(envRun); run != "" {
		cleanUp(t, run)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can become two other users")
	}
	id := string(sandbox.NewID())
	for _, c := range []struct {
		name    string
		plant   func(s *scene)
		refused bool   // the folder itself; else it is the victim's own
		says    string // the clean-up's report on the victim's own folder
	}{
		{"a link to a folder of the victim's", func(s *scene) {
			s.plant(attacker, map[string]string{"instances": "-> " + s.home})
		}, true, ""},
		{"a link in place of the run folder", func(s *scene) {
			s.plant(victim, map[string]string{"../real/instances/photos/boxes/x": ""})
			s.plant(attacker, map[string]string{"../" + filepath.Base(s.run): "-> " + filepath.Join(filepath.Dir(s.run),
				"real")})
		}, true, ""},
		{"a record that names the victim's process", func(s *scene) {
			s.plant(attacker, map[string]string{"instances/abcdefghij/lock": "",
				"instances/abcdefghij/boxes/" + id + "/x":     "",
				"instances/abcdefghij/record.json":            record(s.run + "/fumehood-abcdefghij"),
				"fumehood-abcdefghij/" + id + "/cgroup.procs": fmt.Sprint(s.process.Process.Pid)})
		}, true, ""},
		{"a record and a link to a file of the victim's", func(s *scene) {
			s.plant(attacker, map[string]string{"instances/abcdefghij/lock": "",
				"instances/abcdefghij/boxes/" + id + "/x":      "",
				"instances/abcdefghij/record.json":             record(s.run + "/fumehood-abcdefghij"),
				"fumehood-abcdefghij/" + id + "/cgroup.events": "",
				"fumehood-abcdefghij/" + id + "/cgroup.kill":   "-> " + s.home + "/photos/cat"})
		}, true, ""},
		{"a lock that leads elsewhere", func(s *scene) {
			s.plant(attacker, map[string]string{"instances/abcdefghij/lock": "-> " + s.home + "/made",
				"instances/abcdefghij/boxes/x": ""})
		}, true, ""},
		{"a record of one's own that names a process", func(s *scene) {
			s.plant(victim, map[string]string{"instances/abcdefghij/lock": "", "instances/abcdefghij/boxes/" + id +
				"/x": "",
				"instances/abcdefghij/record.json":            record(s.run + "/fumehood-abcdefghij"),
				"fumehood-abcdefghij/" + id + "/cgroup.procs": fmt.Sprint(s.process.Process.Pid)})
		}, false, "instances/abcdefghij/record.json"},
		{"what bears no record", func(s *scene) {
			s.plant(victim, map[string]string{"instances/photos/boxes/x": "", "instances/photos/cat": "meow",
				"instances/letters/lock": "", "instances/letters/a": "", "instances/linked": "-> " + s.home +
					"/photos"})
		}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := set(t)
			c.plant(s)
			before := s.files()
			got := s.cleanUp()
			after := s.files()
			if c.refused && (got.ReapKind != sandbox.Unavailable || got.OpenKind != sandbox.Unavailable ||
				!strings.Contains(got.OpenFix, "XDG_RUNTIME_DIR")) ||
				!c.refused && (got.Open != "" || !strings.Contains(got.Reap, c.says) ||
					(got.Reap == "") != (c.says == "")) {
				t.Errorf("the victim got %+v", got)
			}
			if before != after {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
			if err := unix.Kill(s.process.Process.Pid, 0); err != nil || s.isDead() {
				t.Error("the victim's process was killed")
			}
		})
	}
}

// set makes a scene.
func set(t *testing.T) *scene {
	t.Helper()
	top, err := os.MkdirTemp("", "planted-") // others cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	s := &scene{T: t, run: filepath.Join(top, "tmp", "fumehood-65534"), home: filepath.Join(top, "home"),
		process: exec.Command("sleep", "600")}
	err = errors.Join(os.Chmod(top, 0o755), os.Mkdir(filepath.Dir(s.run), 0o700),
		os.Chmod(filepath.Dir(s.run), os.ModeSticky|0o777))
	if err != nil {
		t.Fatal(err)
	}
	s.plant(victim, map[string]string{"../../home/photos/cat": "meow", "../../home/photos/boxes/x": ""})
	s.process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: victim, Gid: victim},
		Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	})
	return s
}

// isDead reports whether the victim's process waits to be reaped.
func (s *scene) isDead() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// files lists all files in the scene, with their contents.
func (s *scene) files() string {
	var all strings.Builder
	err := filepath.WalkDir(filepath.Dir(filepath.Dir(s.run)), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			fmt.Fprintf(&all, "%s %q\n", path, text)
		} else {
			fmt.Fprintln(&all, path)
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return all.String()
}

// cleanUp runs this program's clean-up as the victim.
func (s *scene) cleanUp() (got answer) {
	s.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		s.Fatal(err)
	}
	defer self.Close()
	out, in, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestPlantedBeforeCleanUp$")
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{self, in}, "/", []string{envRun + "=" + s.run}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: victim, Gid: victim}}
	said, err := cmd.CombinedOutput()
	in.Close()
	if err = errors.Join(err, json.NewDecoder(out).Decode(&got)); err != nil {
		s.Fatalf("%v: %s", err, said)
	}
	return got
}

// cleanUp is the first step of every backend with host processes.
func cleanUp(t *testing.T, run string) {
	var got answer
	end := func(ctx context.Context, _ sandbox.ID, dir string, owner instance.Record) error {
		return hostbox.Reap(ctx, "test", dir, owner, func(sandbox.ID, []int) []int { return nil })
	}
	if err := (instance.Reaper{End: end}).Reap(t.Context(), run); err != nil {
		got.Reap, got.ReapKind = err.Error(), sandbox.KindOf(err)
	}
	in, err := instance.OpenWithoutGroups(run)
	if err == nil {
		err = in.Close()
	}
	if err != nil {
		got.Open, got.OpenKind, got.OpenFix = err.Error(), sandbox.KindOf(err), sandbox.FixOf(err)
	}
	if err := json.NewEncoder(os.NewFile(4, "answer")).Encode(got); err != nil {
		t.Fatal(err)
	}
}

// TestReapLeavesStrangers: a process of somebody else's that has a box's arguments is neither killed nor waited for.
// Its name is for all to read.
func TestReapLeavesStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can become two other users")
	}
	s := set(t) // its process is another user's
	dir := filepath.Join(t.TempDir(), string(sandbox.NewID()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	find := func(sandbox.ID, []int) []int { return []int{s.process.Process.Pid} }
	if err := hostbox.Reap(t.Context(), "test", dir, instance.Record{}, find); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("its folder is left")
	}
	if s.isDead() {
		t.Error("it was killed")
	}
}
