package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

const nobodyHere = 54_321 // has no subordinate ids, and no control groups that it may write to

// rootlessPodman starts an unprivileged user's engine until the end of the test, and returns its address.
func rootlessPodman(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		backendtest.Skip(t, Podman, "only root can become another user")
	}
	dir := shortDir(t)
	if err := os.Chown(dir, nobodyHere, nobodyHere); err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyHere, Gid: nobodyHere}, Setpgid: true}
	return servePodman(t, dir, storageIn(dir, "vfs"), []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir,
		"PATH=" + os.Getenv("PATH")}, attr)
}

// shortDir is a folder for sockets: a unix address has 107 bytes, and test folders have long names.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// servePodman starts an engine in dir, with its storage, and returns its address.
func servePodman(t *testing.T, dir string, storage, env []string, attr *syscall.SysProcAttr) string {
	t.Helper()
	program, err := exec.LookPath(Podman)
	if err != nil {
		backendtest.Skip(t, Podman, err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, append(storage, "system", "service", "--time=0", "unix://"+socket)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, env, attr
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		// Podman leaves a process behind that keeps its user namespace.
		text, _ := os.ReadFile(filepath.Join(dir, "libpod", "tmp", "pause.pid"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	for end := time.Now().Add(stepTimeout); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return "unix://" + socket
		}
		if time.Now().After(end) {
			t.Fatalf("it does not listen: %s", said.String())
		}
	}
}

// storageIn are podman's options to keep everything in dir.
func storageIn(dir, driver string) []string {
	return []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "rr"), "--storage-driver",
		driver}
}

// TestRootlessPodman: a rootless engine without control groups claims to enforce limits, and does not. The sandbox is
// refused, and Preflight lists the limits to waive.
func TestRootlessPodman(t *testing.T) {
	o := options(t, Podman)
	o.Host = rootlessPodman(t)
	b := open(t, o)
	if to := connected(t, b); !to.rootless {
		t.Fatal("it is not recognized as rootless")
	}
	s := spec()
	lacking, err := b.Preflight(s)
	if sandbox.KindOf(err) != sandbox.Unsupported || sandbox.FixOf(err) == "" {
		t.Errorf("it says %v", err)
	}
	for _, name := range []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitPids} {
		if !slices.Contains(lacking, name) || !slices.Contains(sandbox.UnenforcedOf(err), name) {
			t.Errorf("%s is not among %v, nor in %v", name, lacking, err)
		}
	}
	if box, err := b.Create(within(t), s); sandbox.KindOf(err) != sandbox.Unsupported {
		t.Errorf("a sandbox was made: %v, %v", box, err)
	}
	posture, err := b.Probe(within(t))
	if err != nil || posture.Ready || posture.Wall("limit memory").State != sandbox.WallMissing {
		t.Errorf("it says %+v, %v", posture, err)
	}
}
