package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	guestclient "github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (_ sandbox.Box, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	to, err := b.engine.connect(ctx, callTimeout)
	if err != nil {
		return nil, err
	}
	if err := to.refuse(&spec); err != nil {
		return nil, err
	}
	in, err := b.instance(ctx, to)
	if err != nil {
		return nil, err
	}
	box := &Box{Core: hostbox.Core{Backend: b.Name(), Sandbox: spec.ID, Dir: in.BoxDir(spec.ID)}, backend: b, to: to,
		in: in}
	if box.image, err = to.imageFor(ctx, b.image(&spec), spec.Root.Digest); err != nil {
		return nil, err
	}
	rand.Read(box.Key[:])
	var made undo.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Run())
		}
	}()
	err = os.Mkdir(box.Dir, 0o700)
	if err == nil {
		made.Add(box.removeFolder)
		err = errors.Join(os.Mkdir(filepath.Join(box.Dir, socketFolder), 0o700),
			os.Mkdir(filepath.Join(box.Dir, emptyFolder), 0o755),
			os.WriteFile(filepath.Join(box.Dir, emptyFile), nil, 0o444))
	}
	if err == nil && spec.Network.Linked() {
		err = os.WriteFile(filepath.Join(box.Dir, resolverFile), []byte(rootfs.Resolver), 0o644)
	}
	if err := b.Fail(hostbox.StepDir, err); err != nil {
		return nil, err
	}
	if err := box.make(ctx, &spec, &made); err != nil {
		return nil, err
	}
	made.Add(func() error { return box.Outer.Shut()() })
	if err := box.start(ctx, &spec); err != nil {
		return nil, err
	}
	if spec.Lifetime.Living {
		err = box.Record(spec.Lifetime, nil)
	}
	if err := b.Fail(hostbox.StepRecord, err); err != nil {
		return nil, err
	}
	box.begin()
	return box, nil
}

// removeFolder undoes the box's folder, unless the container could not be removed. Then the folder stays as the record
// for removeLater or the next start, which remove the container by its name. Podman (4.3) lists no containers at all
// while one is half made.
func (box *Box) removeFolder() error {
	if box.lingers {
		box.backend.removals.Go(box.removeLater)
		return nil
	}
	return os.RemoveAll(box.Dir)
}

// Pauses of removeLater.
const (
	firstRemoval = time.Second
	lastRemoval  = time.Minute
)

// removeLater removes the container of a failed creation, and its folder, once the engine answers. Until then, its
// volumes are in use.
func (box *Box) removeLater() {
	b := box.backend
	for pause := firstRemoval; ; pause = min(2*pause, lastRemoval) {
		select {
		case <-time.After(pause):
		case <-b.life.Done():
			return
		}
		to, err := b.engine.connect(b.life, factsTimeout)
		if err == nil {
			err = to.remove(b.life, box.name())
		}
		if err == nil {
			_ = os.RemoveAll(box.Dir) // the next start tries again
			return
		}
	}
}

// make creates the container without starting it, and listens to its output.
func (box *Box) make(ctx context.Context, spec *sandbox.Spec, made *undo.Stack) error {
	b, image := box.backend, box.image
	volume, err := box.volume(ctx, image)
	if err := b.Fail(failGuest, err); err != nil {
		return err
	}
	config, err := box.config(spec, image, volume)
	if err != nil {
		return b.At(failCreate, err)
	}
	// The engine may still carry out an interrupted call, so add its undo step first.
	made.Add(func() error {
		err := box.to.remove(context.Background(), box.name())
		box.lingers = err != nil
		return err
	})
	err = box.create(ctx, config)
	if err != nil && noImage(err) { // another image was used to fill the volume
		if err = box.to.pull(ctx, image); err == nil {
			err = box.create(ctx, config)
		}
	}
	if err != nil {
		if other := box.to.wrongProcessor(ctx, image, err); other != nil {
			err = other
		}
	}
	if err := b.Fail(failCreate, err); err != nil {
		return err
	}
	err = box.attach(ctx)
	if err != nil && ctx.Err() == nil { // Podman prepares a container on attach, and reports a failure only on start
		if startErr := box.run(ctx); startErr != nil {
			err = startErr
		}
		if isGuestMissing(err) {
			if err = box.refill(ctx, spec); err == nil {
				err = box.attach(ctx)
			}
		}
	}
	if err == nil {
		made.Add(func() error { box.closeConnections(); return nil })
	}
	return b.Fail(failAttach, err)
}

// create creates the container. An interrupted call may have created one.
func (box *Box) create(ctx context.Context, config client.ContainerCreateOptions) error {
	call := func() error {
		return box.to.call(ctx, failCreate, callTimeout, func(ctx context.Context) error {
			_, err := box.to.api.ContainerCreate(ctx, config)
			return err
		})
	}
	err := call()
	if err != nil && isInterrupted(err) && ctx.Err() == nil {
		if err = box.to.remove(ctx, box.name()); err == nil {
			err = call()
		}
	}
	return err
}

// attach listens to the container's output.
func (box *Box) attach(ctx context.Context) error {
	attached, err := ask(ctx, box.to, failAttach, callTimeout, func(ctx context.Context) (client.ContainerAttachResult,
		error) {
		return box.to.api.ContainerAttach(ctx, box.name(), client.ContainerAttachOptions{Stream: true, Stderr: true})
	})
	if err == nil {
		box.stream = follow(attached.HijackedResponse)
	}
	return err
}

// volume returns the volume that holds the guest. The first call fills it through a container, which needs an image.
func (box *Box) volume(ctx context.Context, image string) (string, error) {
	name, err := box.to.guestVolume(ctx, image)
	if err != nil && noImage(err) {
		if err = box.to.pull(ctx, image); err == nil {
			name, err = box.to.guestVolume(ctx, image)
		}
	}
	return name, err
}

// start starts the container, waits for its guest, and compares the container with the request.
func (box *Box) start(ctx context.Context, spec *sandbox.Spec) error {
	b := box.backend
	box.Began = time.Now()
	err := box.run(ctx)
	if isGuestMissing(err) {
		if err = box.refill(ctx, spec); err == nil {
			box.stream.close() // the engine may end the stream after a failed start, without a guest
			err = box.attach(ctx)
		}
		if err == nil {
			err = box.run(ctx)
		}
	}
	if err != nil {
		if other := box.to.wrongProcessor(ctx, box.image, err); other != nil {
			err = other
		}
	}
	if err := b.Fail(failStart, err); err != nil {
		return err
	}
	var found container.InspectResponse
	var inspected sync.WaitGroup
	inspected.Go(func() { found, err = box.to.container(ctx, failVerify, box.name()) })
	waited := box.awaitGuest(ctx, spec)
	inspected.Wait()
	if err := b.Fail(failAwait, waited); err != nil {
		return err
	}
	if err == nil && (found.State == nil || found.HostConfig == nil) {
		err = errors.New("the engine does not describe the container")
	}
	if err == nil {
		box.counters = countersOf(box.to, found.State.Pid)
		err = errors.Join(box.to.suitable(ctx, found.Image, box.image), box.verify(spec, &found))
	}
	if err := b.Fail(failVerify, err); err != nil {
		return err
	}
	if err := b.Fail(failDirs, box.showMapped(spec, found.State.Pid)); err != nil || !spec.Network.Linked() {
		return err
	}
	return b.Fail(failLink, box.plug(ctx))
}

func (box *Box) run(ctx context.Context) error {
	return box.to.ask(ctx, failStart, startTimeout, func(ctx context.Context) error {
		_, err := box.to.api.ContainerStart(ctx, box.name(), client.ContainerStartOptions{})
		return err
	})
}

// isGuestMissing reports whether a container failed to start because the guest program was missing.
func isGuestMissing(err error) bool {
	return err != nil && strings.Contains(err.Error(), guestPath) && strings.Contains(err.Error(), "no such file")
}

// refill copies the guest again: somebody removed the volume, and the engine made an empty one with its name.
func (box *Box) refill(ctx context.Context, spec *sandbox.Spec) error {
	name, err := box.to.guestVolume(ctx, box.image)
	if err != nil {
		return err
	}
	box.to.forgetVolume(ctx, name)
	_, err = box.to.guestVolume(ctx, box.image)
	return err
}

// How often and how long to look for a guest. A badly overloaded machine may need that long.
const (
	guestPoll    = time.Millisecond
	guestTimeout = time.Minute
)

// awaitGuest waits until the guest answers. For a one-shot box it keeps the connection as the lifeline.
func (box *Box) awaitGuest(ctx context.Context, spec *sandbox.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	for {
		conn, err := box.greet(ctx, !spec.Lifetime.Living)
		if err == nil {
			box.lifeline = conn
			return nil
		}
		select {
		case <-box.stream.ended:
			return box.guestEnded(ctx, spec)
		case <-time.After(guestPoll):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// greet connects to the guest once. It returns the connection as the lifeline, or nil if none is needed.
func (box *Box) greet(ctx context.Context, oneShot bool) (net.Conn, error) {
	conn, err := box.dial(ctx)
	if err != nil {
		return nil, err
	}
	if oneShot {
		if err = guestclient.Lifeline(ctx, conn, box.Key); err == nil {
			return conn, nil
		}
	} else {
		var c *guestclient.Client
		if c, err = guestclient.New(ctx, conn, box.Key); err == nil {
			return nil, c.Close()
		}
	}
	return nil, errors.Join(err, conn.Close())
}

// guestEnded explains why a guest ended before it served.
func (box *Box) guestEnded(ctx context.Context, spec *sandbox.Spec) error {
	if other := box.to.otherProcessor(ctx, box.image); other != nil {
		return other
	}
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: box.backend.Name() + ": " + failAwait,
		Msg: "the guest ended: " + strings.TrimSpace(box.stream.output())}
	if state, err := box.state(ctx); err == nil && state.Error != "" {
		e.Msg += "; the engine reports: " + state.Error
	}
	return e
}
