package docker

import (
	"context"
	"os/exec"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	guestclient "github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// BenchmarkTrue compares an execution of a command that does nothing with docker exec of the same, in one living
// container. The first must take at most 0.3 of the second; only figures of one run are compared.
func BenchmarkTrue(b *testing.B) {
	backend := New(options(b, Name))
	defer func() {
		if err := backend.Close(); err != nil {
			b.Error(err)
		}
	}()
	ctx := context.Background()
	made, err := backend.Create(ctx, spec())
	if err != nil {
		b.Fatal(err)
	}
	defer made.Close()
	box := made.(*Box)
	conn, err := box.Dial(ctx)
	if err != nil {
		b.Fatal(err)
	}
	c, err := guestclient.New(ctx, conn, box.GuestKey())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.Run("fumehood", func(b *testing.B) {
		for b.Loop() {
			p, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/true"},
				Dir:  sandbox.Workspace,
				Env:  sandbox.DefaultEnv,
				User: sandbox.DefaultUser})
			if err != nil {
				b.Fatal(err)
			}
			exited, err := p.Stream(ctx, func(guest.Output) error { return nil }, true)
			if err != nil || exited.Code != 0 {
				b.Fatalf("it ended with %d, %v", exited.Code, err)
			}
		}
	})
	b.Run("docker exec", func(b *testing.B) {
		docker, err := exec.LookPath("docker")
		if err != nil {
			b.Skip("SKIPPED, NOT MEASURED: the docker program is missing")
		}
		for b.Loop() {
			if out, err := exec.Command(docker, "--host", backend.options.Host, "exec", box.name(),
				"/bin/true").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
