//go:build linux

package fork_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// own is the folder of this process's group in the first hierarchy with this mount type and option, or "".
func own(t testing.TB, fsType, option string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if f[2] != fsType || !strings.Contains(","+f[3]+",", ","+option+",") {
			continue
		}
		for line := range strings.Lines(string(groups)) {
			parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if parts[1] == option || fsType == "cgroup2" && parts[1] == "" {
				return filepath.Join(f[1], parts[2])
			}
		}
	}
	return ""
}

// makeGroup makes an empty group below this process's, or skips the test.
func makeGroup(t *testing.T, parent string) string {
	t.Helper()
	if parent == "" {
		t.Skip("this host has no such hierarchy")
	}
	dir := filepath.Join(parent, "fork-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil { // the children have been waited for
			t.Error(err)
		}
	})
	return dir
}

func openFD(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestTasks: the child enters its v1 groups before it executes, the parent stays where it is.
func TestTasks(t *testing.T) {
	dir := makeGroup(t, own(t, "cgroup", "pids"))
	o := shell(t, "cat /proc/self/cgroup")
	o.Tasks = []int{openFD(t, dir+"/tasks", unix.O_WRONLY)}
	inGroup(t, output(t, o), dir)
}

// TestSpawnInGroup: the child is spawned in its v2 group.
func TestSpawnInGroup(t *testing.T) {
	dir := makeGroup(t, own(t, "cgroup2", "rw"))
	o := shell(t, "cat /proc/self/cgroup")
	o.Cgroup = openFD(t, dir, unix.O_PATH|unix.O_DIRECTORY)
	inGroup(t, output(t, o), dir)
}

func inGroup(t *testing.T, groups, dir string) {
	t.Helper()
	if !strings.Contains(groups, "/"+filepath.Base(dir)) {
		t.Errorf("the child is not in %s:\n%s", dir, groups)
	}
	ours, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || bytes.Contains(ours, []byte(filepath.Base(dir))) {
		t.Errorf("we are in:\n%s, %v", ours, err)
	}
}
