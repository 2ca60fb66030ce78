package gvisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// envOrdinary makes this test program the ordinary user of TestOrdinaryUser, with the guest and runsc as descriptors 4
// and 5.
const envOrdinary = "FUMEHOOD_TEST_ORDINARY"

const ordinaryUser = 54_321 // nobody's; it has no subordinate ids

// TestOrdinaryUser runs its second half as an unprivileged user.
func TestOrdinaryUser(t *testing.T) {
	if os.Getenv(envOrdinary) != "" {
		testOrdinaryUser(t)
		return
	}
	backendtest.ForCheck(t, "an ordinary user's sandbox")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can become another user")
	}
	dir, err := os.MkdirTemp("", "ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	guest := guestProgram(t)
	runsc, err := backendtest.Runsc()
	if err != nil {
		t.Fatal(err)
	}
	defer runsc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	// In a mount namespace where everyone may make interfaces, as most distributions have it.
	become := fmt.Sprintf(`set -e
mount -t tmpfs -o mode=755 none /mnt; mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun || true; umount /mnt
exec setpriv --reuid=%d --regid=%d --clear-groups /proc/self/fd/3 -test.run=^TestOrdinaryUser$ -test.v`, ordinaryUser, ordinaryUser)
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", become)
	cmd.ExtraFiles = []*os.File{self, guest, runsc}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envOrdinary+"=1", "TMPDIR="+dir, "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOrdinaryUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

func testOrdinaryUser(t *testing.T) {
	b, err := New(Options{Guest: os.NewFile(4, "guest"), Runsc: func() (*os.File, error) {
		return os.NewFile(5, "runsc"),
			nil
	},
		RunDir: filepath.Join(t.TempDir(), "run"), Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	s := spec()
	if _, err := b.Create(ctx, s); err != nil { // it does where a control group was given to this user
		if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), string(sandbox.LimitMemory)) {
			t.Fatalf("without a limit of memory it says %v", err)
		}
		s.AllowUnenforced = []string{string(sandbox.LimitMemory)}
	}
	box := create(t, b, s)
	if out := run(t, box, "id -u; touch /workspace/x && ls /workspace; ls /root 2>&1 | head -1"); !strings.HasPrefix(out,
		"1000\nx\n") {
		t.Errorf("it prints %q", out)
	}
	p := box.Effective()
	if p.HostUID != hostid.Shared || p.Limits.MemoryBytes != sandbox.Unlimited &&
		p.Enforcers[sandbox.LimitMemory] == "" {
		t.Errorf("in effect is %+v", p)
	}
	pids := processesOf(box.ID(), nil)
	if len(pids) == 0 {
		t.Fatal("none of its processes is found")
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if list := left(b, box.ID()); len(list) > 0 {
		t.Errorf("left: %v", list)
	}
	backendtest.Links(t, func(*testing.T) sandbox.Backend { return waiving{b, s.AllowUnenforced} })
	s.ID, s.Workspace = sandbox.NewID(), t.TempDir()
	if _, err := b.Create(ctx, s); sandbox.KindOf(err) != sandbox.Unsupported {
		t.Errorf("with a directory of the host it says %v", err)
	}
}

// waiving waives, for every sandbox, what this host cannot enforce.
type waiving struct {
	*Backend
	names []string
}

func (w waiving) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.AllowUnenforced = append(spec.AllowUnenforced, w.names...)
	return w.Backend.Create(ctx, spec)
}
