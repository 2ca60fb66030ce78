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
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
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

// Recover destroys what instances without an owner left, and reattaches the boxes to keep. Without earlier instances it asks
// no engine. What is left on an unreachable engine waits until it is back.
func (b *Backend) Recover(ctx context.Context, keep []sandbox.ID) ([]sandbox.Box, error) {
	var gone error // why the engine is unreachable
	end := func(ctx context.Context, id sandbox.ID, dir string, _ instance.Record) error {
		to, err := b.engine.connect(ctx, factsTimeout)
		if err != nil {
			gone = err
			return err
		}
		if err := to.remove(ctx, containerName(id)); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	}
	boxes, err := instance.Recover(ctx, instance.Recovery{Run: b.options.RunDir, Keep: keep, End: end, At: b.at,
		Reattach: func(ctx context.Context, dir string) (sandbox.Box, error) { return b.reattach(ctx, dir) }})
	if gone != nil && len(keep) == 0 {
		return nil, nil
	}
	return boxes, err
}

// reattach makes a box from the folder that a dead server left, and moves the folder into this process's instance: mounts
// survive the move, so the container still sees the socket folder. A box that has ended is cleaned up and reported as an
// error.
func (b *Backend) reattach(ctx context.Context, dir string) (*Box, error) {
	to, err := b.engine.connect(ctx, callTimeout)
	if err != nil {
		return nil, err
	}
	in, err := b.instance(ctx, to)
	if err != nil {
		return nil, err
	}
	id := sandbox.ID(filepath.Base(dir))
	box := &Box{backend: b, to: to, in: in, id: id, dir: in.BoxDir(id), watched: make(chan struct{}), ended: make(chan struct{})}
	rec, err := instance.ReadBox(dir)
	if err == nil && len(rec.Key) != len(box.key) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: b.Name() + ": reattach " + string(id), Msg: "its creation was never completed"}
	}
	pid := 0
	if err == nil {
		found, lookErr := box.inspect(ctx)
		switch {
		case errdefs.IsNotFound(lookErr), lookErr == nil && !found.State.Running:
			err = &sandbox.Error{Kind: sandbox.NotFound, Op: b.Name() + ": reattach " + string(id), Msg: "it has ended"}
		case lookErr != nil:
			return nil, lookErr // an unreachable engine says nothing about the sandbox
		default:
			pid = found.State.Pid
		}
	}
	if err != nil {
		return nil, errors.Join(err, to.remove(ctx, containerName(id)), os.RemoveAll(dir))
	}
	copy(box.key[:], rec.Key)
	box.effective, box.began, box.counters = rec.Effective, rec.Began, countersOf(to, pid)
	if err := os.Rename(dir, box.dir); err != nil {
		return nil, err
	}
	box.begin()
	return box, nil
}

// sweep removes containers of this run folder whose instance is gone, as after a reboot.
func (b *Backend) sweep(ctx context.Context, to *connection) error {
	var found client.ContainerListResult
	err := to.ask(ctx, "list containers", callTimeout, func(ctx context.Context) (err error) {
		found, err = to.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelRun+"="+b.options.runLabel())})
		return err
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
		// The box's folder is made before the container, and moves when another server reattaches it.
		folders, err := filepath.Glob(filepath.Join(b.options.RunDir, "instances", "*", "boxes", string(id)))
		if err == nil && len(folders) == 0 {
			err = to.remove(ctx, containerName(id))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removalPoll is how often to look for a container that somebody else removes.
const removalPoll = 20 * time.Millisecond

// awaitRemoval waits until a container is gone, or nobody removes it any more.
func (to *connection) awaitRemoval(ctx context.Context, name string) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		err := to.ask(ctx, "await removal", callTimeout, func(ctx context.Context) error {
			_, err := to.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
			return err
		})
		if err != nil {
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
