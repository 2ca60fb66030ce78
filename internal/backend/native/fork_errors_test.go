package native

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// withZygote is a backend with a zygote, and a fork to ask of it.
func withZygote(t *testing.T) (*Backend, sandbox.Fork) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can fork an interpreter into a sandbox")
	}
	b, l := open(t, ""), python.Language
	f := sandbox.Fork{Zygote: l.Zygote, Argv: l.Argv(l.Programs[0], sandbox.Workspace+"/"+l.FileName),
		Reads: l.Zygote.Reads(sandbox.DefaultEnv), Dir: sandbox.Workspace}
	z, err := b.startZygote(&f)
	if err != nil {
		t.Fatal(err)
	}
	b.zygotes.ready = z
	return b, f
}

// TestForkWithoutDescriptors: a server without free descriptors reports that, and does not blame the zygote.
func TestForkWithoutDescriptors(t *testing.T) {
	b, f := withZygote(t)
	var boxes [zygoteStrikes]*Box
	for n := range boxes {
		boxes[n] = create(t, b, spec()).(*Box)
	}
	change(t, unix.RLIMIT_NOFILE, 3)
	for _, box := range boxes {
		if _, err := box.Fork(context.Background(), f); !errors.Is(err, unix.EMFILE) {
			t.Errorf("got %v", err)
		}
	}
	if b.zygotes.ready == nil {
		t.Error("it is given up")
	}
}

// TestForkWithoutItsGroups: if the zygote does not get all descriptors, there is no fork outside its control groups.
func TestForkWithoutItsGroups(t *testing.T) {
	b, f := withZygote(t)
	box := create(t, b, spec()).(*Box)
	if door, err := box.Group.Door(); err != nil || len(door.Tasks) == 0 {
		t.Skip("there are no groups of v1")
	} else {
		door.Close()
	}
	const room = 4 + 4 // for what it has, and for the descriptors before those of the groups
	if err := unix.Prlimit(b.zygotes.ready.process.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: room, Max: room},
		nil); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Fork(context.Background(), f); err == nil || !strings.Contains(err.Error(),
		"not all descriptors") {
		t.Errorf("got %v", err)
	}
}

// TestZygoteDies: a zygote that dies is reaped, and not replaced at once, as the next may die too.
func TestZygoteDies(t *testing.T) {
	b, f := withZygote(t)
	z := b.zygotes.ready
	const its = 3 // its pidfd, its gate and what it says
	fds := openFiles(t) - its
	z.process.Kill()
	<-z.ended
	for range 2 {
		if _, err := b.zygotes.take(b, &f); err != sandbox.ErrNoZygote || b.zygotes.coming || b.zygotes.ready != nil {
			t.Errorf("%v, %+v", err, b.zygotes.ready)
		}
	}
	b.zygotes.starter.Wait()
	if n := openFiles(t); n > fds {
		t.Errorf("%d descriptors without it, %d after it", fds, n)
	}
}

// TestZygoteHasNoSuccessor: a used-up zygote ends even if there can be no other.
func TestZygoteHasNoSuccessor(t *testing.T) {
	b, f := withZygote(t)
	z := b.zygotes.ready
	b.zygotes.forks = zygoteForks
	f.Argv = []string{"no-such-program"}
	if _, err := b.zygotes.take(b, &f); err != sandbox.ErrNoZygote {
		t.Error(err)
	}
	b.zygotes.starter.Wait()
	if b.zygotes.ready != nil || !z.dead() {
		t.Error("it is still there")
	}
}
