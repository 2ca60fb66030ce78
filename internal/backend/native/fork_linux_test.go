package native

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/lang/python"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// withZygote is a backend with a zygote, and what to ask of that.
func withZygote(t *testing.T) (*Backend, sandbox.Fork) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can fork an interpreter into a sandbox")
	}
	b, l := open(t, ""), python.Language
	f := sandbox.Fork{Zygote: l.Zygote, Argv: l.Argv(l.Programs[0], sandbox.Workspace+"/"+l.FileName),
		Reads: l.Zygote.Reads(sandbox.DefaultEnv), Env: sandbox.DefaultEnv, Dir: sandbox.Workspace}
	z, err := b.startZygote(&f)
	if err != nil {
		t.Fatal(err)
	}
	b.zygotes.ready = z
	return b, f
}

// TestForkWithoutDescriptors: a server that can open nothing more says so.
func TestForkWithoutDescriptors(t *testing.T) {
	b, f := withZygote(t)
	box := create(t, b, spec()).(*Box)
	change(t, unix.RLIMIT_NOFILE, 3)
	if _, err := box.Fork(context.Background(), f); !errors.Is(err, unix.EMFILE) {
		t.Errorf("got %v", err)
	}
}
