package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	guestDir  = "/run/fumehood-guest"
	guestFile = "fumehood-guest"
	guestPath = guestDir + "/" + guestFile
)

// readySuffix ends the name of an empty volume that marks the one without the suffix as filled, so that an interrupted
// copy is repeated.
const readySuffix = "-ready"

// guestVolume returns the volume that holds the guest for the engine's processor, and fills it if necessary. Its name
// contains the guest's digest, so several versions live side by side and a volume's content never changes. image is any
// image of the engine; a container of it receives the copy and is never started.
func (to *connection) guestVolume(ctx context.Context, image string) (string, error) {
	e := to.engine
	e.mu.Lock()
	name := e.filled[to.arch]
	e.mu.Unlock()
	if name != "" {
		return name, nil
	}
	program, err := e.options.Guest(to.arch)
	if err != nil {
		return "", err
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, io.NewSectionReader(program, 0, info.Size())); err != nil {
		return "", err
	}
	name = "fumehood-guest-" + hex.EncodeToString(digest.Sum(nil))[:16]
	err = to.ask(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.VolumeInspect(ctx, name+readySuffix, client.VolumeInspectOptions{})
		return err
	})
	if errdefs.IsNotFound(err) {
		err = to.fill(ctx, name, image, program)
	}
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	e.filled[to.arch] = name
	e.mu.Unlock()
	return name, nil
}

// forgetVolume makes the next guestVolume fill the volume again: somebody removed it.
func (to *connection) forgetVolume(ctx context.Context, name string) {
	e := to.engine
	e.mu.Lock()
	delete(e.filled, to.arch)
	e.mu.Unlock()
	_ = to.call(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.VolumeRemove(ctx, name+readySuffix, client.VolumeRemoveOptions{})
		return err
	})
}

// fill copies the guest into its volume. Concurrent calls write the same.
func (to *connection) fill(ctx context.Context, name, image string, program *os.File) (err error) {
	holder := "fumehood-fill-" + string(sandbox.NewID())
	if err := to.makeVolume(ctx, name); err != nil {
		return err
	}
	// An interrupted call may still be carried out, so add its undo step first.
	defer func() { err = errors.Join(err, to.remove(context.WithoutCancel(ctx), holder)) }()
	err = to.call(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: holder,
			Config: &container.Config{Image: image, Entrypoint: []string{guestPath},
				Labels: map[string]string{labelPart: "fill", labelRun: to.engine.options.runLabel()}},
			HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{guestBind(name, "rw")}}})
		return err
	})
	if err != nil {
		return err
	}
	err = to.ask(ctx, failGuest, startTimeout, func(ctx context.Context) error {
		reader, writer := io.Pipe()
		packed := make(chan struct{})
		go func() {
			defer close(packed)
			writer.CloseWithError(pack(writer, program))
		}()
		_, err := to.api.CopyToContainer(ctx, holder, client.CopyToContainerOptions{DestinationPath: guestDir,
			Content: reader})
		reader.Close()
		<-packed
		return err
	})
	if err != nil {
		return err
	}
	return to.makeVolume(ctx, name+readySuffix)
}

// guestBind mounts the guest's volume. The engine must not fill an empty volume from the image: its content would
// become the guest of all sandboxes. Podman ignores nocopy in a mount, but respects it here.
func guestBind(volume, mode string) string { return volume + ":" + guestDir + ":" + mode + ",nocopy" }

func (to *connection) makeVolume(ctx context.Context, name string) error {
	return to.ask(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Driver: "local",
			Labels: map[string]string{labelPart: "guest"}})
		if errdefs.IsConflict(err) { // Podman: it exists
			return nil
		}
		return err
	})
}

func pack(to io.Writer, program *os.File) error {
	info, err := program.Stat()
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	err = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guestFile, Mode: 0o555, Size: info.Size()})
	if err == nil {
		_, err = io.Copy(archive, io.NewSectionReader(program, 0, info.Size()))
	}
	return errors.Join(err, archive.Close())
}

// remove removes a container, running or not, with its anonymous volumes. A missing container is no error.
func (to *connection) remove(ctx context.Context, name string) error {
	for end := time.Now().Add(backTimeout); ; {
		err := to.ask(ctx, "remove container", startTimeout, func(ctx context.Context) error {
			_, err := to.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err) && ctx.Err() == nil: // another process removes it
			if err := to.awaitRemoval(ctx, name); err != nil {
				return err
			}
		case isTransient(err) && ctx.Err() == nil && time.Now().Before(end):
			time.Sleep(removalPoll)
		default:
			return err
		}
	}
}

// isTransient reports whether a retry may succeed: after an internal error of the engine, or on Podman after a
// container has just ended by itself.
func isTransient(err error) bool {
	return errdefs.IsInternal(err) || strings.Contains(err.Error(), "container state improper")
}
