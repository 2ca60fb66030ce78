package native

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestStopBetweenForkAndExec has code stop every process it may, repeatedly, including a child of the guest that has
// the code's user but has not executed its program yet. Such a start may fail; the guest keeps serving and its
// deadlines, and ends with its lifeline.
func TestStopBetweenForkAndExec(t *testing.T) {
	backendtest.ForCheck(t, "a start that is held up takes the guest five seconds to give up")
	const most = 2000
	s := spec()
	s.Limits.Pids = 2 * most // of which the stopped ones are some
	box := create(t, open(t, ""), s)
	c := connect(t, box)
	start := func(script string) error {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		_, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/sh", "-c", script},
			Env: sandbox.DefaultEnv,
			Dir: "/", User: sandbox.DefaultUser, Deadline: stepTimeout})
		return err
	}
	if err := start("while :; do kill -STOP -1; done"); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	for stopped := false; !stopped; attempts++ {
		if attempts == most {
			t.Fatalf("of %d starts none was stopped before its program", most)
		}
		served := make(chan error, 1)
		go func() { served <- start("exit 0") }()
		for done := false; !done; {
			select {
			case err := <-served:
				stopped = errors.Is(err, unix.ETIMEDOUT)
				if err != nil && !stopped {
					t.Fatal(err)
				}
				done = true
			case <-time.After(10 * time.Millisecond):
				ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
				if _, err := c.Stat(ctx, guest.Stat{Path: "/"}); err != nil {
					t.Fatalf("the guest does not answer beside a start that is held up: %v", err)
				}
				cancel()
			}
		}
	}
	t.Logf("start %d was stopped", attempts)
	box.(*Box).Lifeline.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if _, err := box.Wait(ctx); err != nil {
		t.Errorf("the guest outlives its lifeline: %v", err)
	}
}

func connect(t *testing.T, box sandbox.Box) *client.Client {
	t.Helper()
	conn, err := box.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(context.Background(), conn, box.GuestKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
