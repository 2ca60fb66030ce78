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

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Where a container has the guest.
const (
	guestDir  = "/run/glovebox-guest"
	guestFile = "glovebox-guest"
	guestPath = guestDir + "/" + guestFile
)

// readySuffix ends the name of an empty volume that says that the one without it is filled: a copy that was cut off is made again.
const readySuffix = "-ready"

// guestVolume returns the volume that holds the guest for the engine's processor, filled on the way if it is not yet. Its name is made of
// the guest's digest, so volumes of several versions of ours live side by side, and what is in one never changes. image is any that the
// engine has: a container of it takes the copy, and is never started.
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
	name = "glovebox-guest-" + hex.EncodeToString(digest.Sum(nil))[:16]
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

// emptied has the volume filled anew: somebody removed it.
func (to *connection) emptied(ctx context.Context, name string) {
	e := to.engine
	e.mu.Lock()
	delete(e.filled, to.arch)
	e.mu.Unlock()
	_ = to.call(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.VolumeRemove(ctx, name+readySuffix, client.VolumeRemoveOptions{})
		return err
	})
}

// fill copies the guest into its volume. Several who do it at once write the same.
func (to *connection) fill(ctx context.Context, name, image string, program *os.File) (err error) {
	holder := "glovebox-fill-" + string(sandbox.NewID())
	if err := to.makeVolume(ctx, name); err != nil {
		return err
	}
	// A call that is cut off may yet be carried out, so its undoing comes first.
	defer func() { err = errors.Join(err, to.remove(context.WithoutCancel(ctx), holder)) }()
	err = to.call(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: holder,
			Config:     &container.Config{Image: image, Entrypoint: []string{guestPath}, Labels: map[string]string{labelPart: "fill", labelRun: to.engine.options.runLabel()}},
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
		_, err := to.api.CopyToContainer(ctx, holder, client.CopyToContainerOptions{DestinationPath: guestDir, Content: reader})
		reader.Close()
		<-packed
		return err
	})
	if err != nil {
		return err
	}
	return to.makeVolume(ctx, name+readySuffix)
}

// guestBind shows the volume of the guest. An engine that finds it empty must not fill it with what the image has there: that would be the
// guest of all sandboxes then. Podman passes over the word for that in a mount, and heeds it here.
func guestBind(volume, mode string) string { return volume + ":" + guestDir + ":" + mode + ",nocopy" }

func (to *connection) makeVolume(ctx context.Context, name string) error {
	return to.ask(ctx, failGuest, callTimeout, func(ctx context.Context) error {
		_, err := to.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Driver: "local", Labels: map[string]string{labelPart: "guest"}})
		if errdefs.IsConflict(err) { // Podman: it is there
			return nil
		}
		return err
	})
}

// pack writes an archive that holds the program.
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

// remove removes a container, running or not, with the volumes that it alone had. One that is gone is no error.
func (to *connection) remove(ctx context.Context, name string) error {
	for end := time.Now().Add(backTimeout); ; {
		err := to.ask(ctx, "remove container", startTimeout, func(ctx context.Context) error {
			_, err := to.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err) && ctx.Err() == nil: // somebody else is at it
			if err := to.awaitRemoval(ctx, name); err != nil {
				return err
			}
		case isSurprised(err) && ctx.Err() == nil && time.Now().Before(end):
			time.Sleep(removalPoll)
		default:
			return err
		}
	}
}

// isSurprised says whether an engine failed at what another attempt may do: an error of its own, or, on Podman, a container that ended by
// itself just now.
func isSurprised(err error) bool {
	return errdefs.IsInternal(err) || strings.Contains(err.Error(), "container state improper")
}
