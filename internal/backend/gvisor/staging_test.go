package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestHostHoldsTheMounts: the host's kernel, too, enforces for gVisor's own processes that mounted host files are
// read-only and that devices there do not work: gVisor opens devices for the code. This covers mounts below as well.
func TestHostHoldsTheMounts(t *testing.T) {
	backendtest.ForCheck(t, "it mounts on the host")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can make devices")
	}
	folder := t.TempDir()
	below := filepath.Join(folder, "usr", "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("below", below, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(below, unix.MNT_DETACH)
	for _, dir := range []string{filepath.Dir(below), below} {
		file, device := filepath.Join(dir, "open"), filepath.Join(dir, "urandom")
		err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o666),
			unix.Mknod(device, unix.S_IFCHR, int(unix.Mkdev(1, 9))), os.Chmod(device, 0o666))
		if err != nil {
			t.Fatal(err)
		}
	}
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	root, mounts := spec(), spec()
	root.Root = sandbox.Root{Dir: folder}
	mounts.Workspace = filepath.Dir(below)
	mounts.Mounts = []sandbox.Mount{{Source: filepath.Dir(below), Target: "/own"}}
	var box *Box
	for _, s := range []sandbox.Spec{root, mounts} {
		box = create(t, b, s)
		looked := 0
		for _, pid := range box.Group.Processes() {
			if !slices.Contains(pidfd.Find(called("runsc-gofer")), pid) {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				fields := strings.Fields(line)
				want := []string{"nosuid", "nodev", "ro"}
				if fields[4] == socketDir || strings.HasPrefix(fields[4], sandbox.Workspace) {
					want = want[:2]
				}
				for _, w := range want {
					if !strings.Contains(","+fields[5]+",", ","+w+",") {
						t.Errorf("%s is not %s but %s", fields[4], w, fields[5])
					}
				}
				looked++
			}
		}
		if looked < 4 {
			t.Errorf("of its mounts %d were seen", looked)
		}
	}
	const try = "for f in /own /own/below /workspace /workspace/below; do cat $f/open && ! head -c 1 $f/urandom && echo none; done 2>/dev/null"
	if out := run(t, box, try); out != strings.Repeat("none\n", 4) {
		t.Errorf("of its devices the code sees %q", out)
	}
}

// TestStagingSharesNothing: with shared host mounts, as systemd makes them, mounts in a box's staging area do not
// appear on the host.
func TestStagingSharesNothing(t *testing.T) {
	backendtest.ForCheck(t, "it mounts on the host")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root has a staging")
	}
	run := t.TempDir()
	if err := errors.Join(unix.Mount(run, run, "", unix.MS_BIND, ""), unix.Mount("", run, "", unix.MS_SHARED,
		"")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(run, unix.MNT_DETACH)
	create(t, openIn(t, filepath.Join(run, "run"), ""), spec())
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, run+"/") {
			t.Errorf("on the host is mounted %s", at)
		}
	}
}
