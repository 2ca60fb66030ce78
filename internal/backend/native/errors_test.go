package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestExplainStart: an error names the step at which a guest failed to start.
func TestExplainStart(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind sandbox.Kind
		says string
	}{
		{fmt.Errorf("move descriptor: %w", unix.EMFILE), sandbox.Unavailable, failSpawn + ": move descriptor"},
		{&fork.Error{Step: fork.Enter, Errno: unix.EACCES}, sandbox.Unavailable, failJoin},
		{&fork.Error{Step: fork.Execute, Errno: unix.EACCES}, sandbox.Unavailable, "execute"},
		{&fork.Error{Step: fork.Fork, Errno: unix.EAGAIN}, sandbox.Unavailable, "make namespaces"},
		{&fork.Error{Step: fork.Fork, Errno: unix.EPERM}, sandbox.Unsupported, "make namespaces"},
		{&fork.Error{Step: fork.Privileges, Errno: unix.EPERM}, sandbox.Unsupported, "make namespaces"},
		{&fork.Error{Step: fork.Fork, Errno: unix.ENOSPC}, sandbox.Unsupported, "user.max_user_namespaces"},
	} {
		err := explainStart(c.err)
		if sandbox.KindOf(err) != c.kind || !strings.Contains(err.Error()+sandbox.FixOf(err), c.says) {
			t.Errorf("%v: got %v %v", c.err, sandbox.KindOf(err), err)
		}
		if !errors.Is(err, errors.Unwrap(c.err)) {
			t.Errorf("%v: the cause is lost in %v", c.err, err)
		}
	}
}

// TestExplainAppArmor: with Ubuntu's switch on, its refusals name it and how to change it.
func TestExplainAppArmor(t *testing.T) {
	was := appArmorSwitch
	defer func() { appArmorSwitch = was }()
	appArmorSwitch = filepath.Join(t.TempDir(), "switch")
	if err := os.WriteFile(appArmorSwitch, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		explainStart(&fork.Error{Step: fork.Fork, Errno: unix.EPERM}),
		explainStart(&fork.Error{Step: fork.Privileges, Errno: unix.EPERM}),
		explainSetup(&confine.Failure{Step: confine.StepPrivate, Errno: uint32(unix.EACCES)}),
	} {
		if !strings.Contains(err.Error(), "AppArmor") || !strings.Contains(sandbox.FixOf(err),
			"apparmor_restrict_unprivileged_userns=0") {
			t.Errorf("%v (%s)", err, sandbox.FixOf(err))
		}
	}
}

// TestExplainOldKernel: a missing system call is reported as an old kernel, with the version that has it.
func TestExplainOldKernel(t *testing.T) {
	err := explainSetup(&confine.Failure{Step: confine.StepPrivate, Errno: uint32(unix.ENOSYS)})
	if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), "this kernel is too old") ||
		!strings.Contains(sandbox.FixOf(err), "Linux "+leastKernel) {
		t.Errorf("got %v (%s)", err, sandbox.FixOf(err))
	}
}

// TestHiddenProc makes sandboxes where part of /proc is covered, as in most containers. The kernel then permits no new
// /proc, and the error has a fix.
func TestHiddenProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("covering a part of /proc needs root")
	}
	// in the tests' own mount namespace
	if err := unix.Mount("none", "/proc/bus", "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/proc/bus", unix.MNT_DETACH)
	b := open(t, "")
	_, err := b.Create(context.Background(), spec())
	if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(sandbox.FixOf(err), "systempaths=unconfined") {
		t.Errorf("got %v (%s)", err, sandbox.FixOf(err))
	}
	p, err := b.Probe(context.Background())
	if err == nil && (p.Ready || !strings.Contains(p.Wall("root").Fix, "systempaths=unconfined")) {
		t.Errorf("the posture is %+v", p)
	}
}
