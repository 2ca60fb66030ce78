package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// runLabel identifies this host's run folder in labels: an engine may serve several hosts.
func (o *Options) runLabel() string {
	dir, err := filepath.Abs(o.RunDir)
	if err != nil {
		dir = o.RunDir
	}
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(host + "\x00" + machine() + "\x00" + dir))
	return hex.EncodeToString(sum[:8])
}

// machine distinguishes hosts with the same name (machine-id(5)); may be "".
func machine() string {
	text, _ := os.ReadFile("/etc/machine-id")
	return string(text)
}

// Reap destroys the boxes of instances without an owner, except living boxes. Without earlier instances it contacts no
// engine. Boxes on an unreachable engine wait until it is back.
func (b *Backend) Reap(ctx context.Context) error {
	var gone error // why the engine is unreachable
	reach := func(ctx context.Context) (*connection, error) {
		to, err := b.engine.connect(ctx, factsTimeout)
		if err != nil {
			gone = err
		}
		return to, err
	}
	err := instance.Reaper{Recheck: b.Recheck,
		Lives: func(ctx context.Context, id sandbox.ID, _ instance.Record) (bool, error) {
			to, err := reach(ctx)
			if err != nil {
				return false, err
			}
			found, err := to.running(ctx, id)
			return found != nil, err
		},
		End: func(ctx context.Context, id sandbox.ID, dir string, _ instance.Record) error {
			to, err := reach(ctx)
			if err != nil {
				return err
			}
			if err := to.remove(ctx, containerName(id)); err != nil {
				return err
			}
			return os.RemoveAll(dir)
		},
	}.Reap(ctx, b.options.RunDir)
	if err == nil || gone != nil {
		return nil
	}
	return b.At("reap", err)
}

// running returns the state of a sandbox's container; nil if it does not run, or is gone.
func (to *connection) running(ctx context.Context, id sandbox.ID) (*container.State, error) {
	found, err := to.container(ctx, "look at container", containerName(id))
	switch {
	case errdefs.IsNotFound(err), err == nil && (found.State == nil || !found.State.Running):
		return nil, nil
	}
	return found.State, err // an unreachable engine proves nothing about the sandbox
}

// Reattach makes a box of a living one that its server left.
func (b *Backend) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	return b.ReattachBy(ctx, id, func(dir string) (sandbox.Box, error) { return b.reattach(ctx, id, dir) })
}

func (b *Backend) reattach(ctx context.Context, id sandbox.ID, dir string) (sandbox.Box, error) {
	box := &Box{Core: hostbox.Core{Backend: b.Name(), Sandbox: id, Dir: dir}, backend: b}
	rec, err := box.Load()
	if err != nil {
		return nil, err
	}
	if box.to, err = b.engine.connect(ctx, callTimeout); err != nil {
		return nil, err
	}
	state, err := box.to.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, box.NotFound(rec.Over())
	}
	box.counters = countersOf(box.to, state.Pid)
	box.begin()
	return box, nil
}

// Leases implements sandbox.Leaser: the engine may be on another host.
func (b *Backend) Leases() bool { return true }

// Promote makes the box living.
func (box *Box) Promote(_ context.Context, lifetime sandbox.Lifetime) error {
	return box.PromoteBy(lifetime, func() error {
		return box.backend.Fail(hostbox.StepRecord, box.Record(lifetime, nil))
	})
}

// sweep removes containers of this run folder whose instance is gone, as after a reboot.
func (b *Backend) sweep(ctx context.Context, to *connection) error {
	found, err := ask(ctx, to, "list containers", callTimeout, func(ctx context.Context) (client.ContainerListResult,
		error) {
		return to.api.ContainerList(ctx, client.ContainerListOptions{All: true,
			Filters: client.Filters{}.Add("label", labelRun+"="+b.options.runLabel())})
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range found.Items {
		id, err := sandbox.ParseID(c.Labels[labelSandbox])
		if err != nil { // a container that only filled the guest's volume
			if time.Since(time.Unix(c.Created, 0)) > startTimeout {
				errs = append(errs, to.remove(ctx, c.ID))
			}
			continue
		}
		// The box's folder is made before the container.
		folders, err := filepath.Glob(filepath.Join(b.options.RunDir, "instances", "*", "boxes", string(id)))
		if err == nil && len(folders) == 0 {
			err = to.remove(ctx, containerName(id))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removalPoll is how often to look for a container that another process removes.
const removalPoll = 20 * time.Millisecond

// awaitRemoval waits until a container is gone, or its removal has failed.
func (to *connection) awaitRemoval(ctx context.Context, name string) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		if _, err := to.container(ctx, "await removal", name); err != nil {
			if errdefs.IsNotFound(err) {
				return nil
			}
			return err
		}
		select {
		case <-time.After(removalPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return to.hangs("remove container", startTimeout)
}
