//go:build vm

// Package vm checks what the other suites assume about the virtual machine: an ordinary Debian with systemd, only
// cgroup v2, and ordinary users who may create user namespaces and request a delegated scope. On a lesser host those
// suites fall back, and would pass without proving anything.
package vm

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func wantControllers(t *testing.T, dir string) {
	t.Helper()
	have := strings.Fields(read(t, filepath.Join(dir, "cgroup.controllers")))
	for _, want := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, want) {
			t.Errorf("%s has the controllers %v, without %s", dir, have, want)
		}
	}
}

func TestUser(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("FUMEHOOD_VM_USER"); me.Username != want {
		t.Errorf("runs as %s, want %s", me.Username, want)
	}
	if ids := strings.Contains(read(t, "/etc/subuid"), me.Username+":"); ids != (me.Username == "tester") {
		t.Errorf("subordinate ids of %s: %v", me.Username, ids)
	}
}

func TestInitIsSystemd(t *testing.T) {
	if comm := read(t, "/proc/1/comm"); comm != "systemd" {
		t.Errorf("pid 1 is %s", comm)
	}
}

func TestOnlyCgroup2(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Errorf("%s is of type %#x", cgroupRoot, fs.Type)
	}
	for line := range strings.Lines(read(t, "/proc/self/mounts")) {
		if fields := strings.Fields(line); fields[2] == "cgroup" {
			t.Errorf("cgroup v1 is mounted at %s", fields[1])
		}
	}
	wantControllers(t, cgroupRoot)
}

// With an initramfs as root, pivot_root would fail.
func TestRootIsADisk(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.EXT4_SUPER_MAGIC {
		t.Errorf("/ is of type %#x", fs.Type)
	}
}

func TestUserNamespace(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "id -u; echo $$")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "0\n1\n" {
		t.Errorf("got %q, %v; want user 0 and process 1 of new namespaces", out, err)
	}
}

// systemd-run requests the same over D-Bus as Fumehood: a scope whose subtree belongs to the caller.
func TestDelegatedScope(t *testing.T) {
	args := []string{"--quiet", "--scope", "--property=Delegate=yes", "--", "cat", "/proc/self/cgroup"}
	if os.Getuid() != 0 {
		args = append([]string{"--user"}, args...)
	}
	cmd := exec.Command("systemd-run", args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("systemd-run: %v: %s", err, err.(*exec.ExitError).Stderr)
	}
	path, found := strings.CutPrefix(strings.TrimSpace(string(out)), "0::")
	if !found || !strings.HasSuffix(path, ".scope") {
		t.Fatalf("not in a scope: %q", out)
	}
	if os.Getuid() != 0 && !strings.Contains(path, "/user@") {
		t.Errorf("the scope %s is not below the user's manager", path)
	}
	wantControllers(t, filepath.Join(cgroupRoot, filepath.Dir(path)))
}
