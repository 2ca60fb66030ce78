package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
)

// Annotations of an image in a layout, by which engines name it.
const (
	annotationTag  = "org.opencontainers.image.ref.name"
	annotationName = "io.containerd.image.name"
)

// Export writes an image as an OCI archive with one layer, which has all its files. They belong to root: the store does
// not keep their owners.
func (s *Store) Export(ctx context.Context, text, file string) (err error) {
	i, err := s.Find(text)
	if err != nil {
		return err
	}
	exported, release, err := s.packed(ctx, i, gzip.NoCompression, func() {})
	if err != nil {
		return err
	}
	defer release()
	draft, err := s.trees.NewDraft() // a place that the next start sweeps
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, draft.Discard()) }()
	path, err := layout.Write(draft.Files(), empty.Index)
	if err == nil {
		err = path.AppendImage(exported, layout.WithAnnotations(map[string]string{annotationTag: i.Name,
			annotationName: i.Name}))
	}
	if err != nil {
		return err
	}
	return writeArchive(ctx, draft.Files(), file)
}

// packed returns an image with one layer, which has all files of an image of the store. It is valid until release or
// until ctx ends. moved is as in fromRoot.
func (s *Store) packed(ctx context.Context, i Image, compression int, moved func()) (packed v1.Image, release func(),
	err error) {
	dir, unhold, err := s.Hold(i)
	if err != nil {
		return nil, nil, err
	}
	packed, end, err := fromRoot(ctx, dir, compression, true, moved)
	both := func() {
		end()
		unhold()
	}
	defer func() {
		if err != nil {
			both()
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	config, err := packed.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: i.AddedAt}
	labels := map[string]string{hostbox.ImageLabel: i.Name}
	if err = hostbox.StartLabels(labels, i.Config.Start); err != nil {
		return nil, nil, err
	}
	config.Config = v1.Config{Env: i.Config.Env, User: i.Config.User, WorkingDir: i.Config.Dir,
		Entrypoint: i.Config.Entrypoint, Cmd: i.Config.Command, Labels: labels}
	packed, err = mutate.ConfigFile(packed, config)
	return packed, both, err
}

// Loadable returns an image of the store for a container engine.
func (r *Roots) Loadable(text string) (l hostbox.Loadable, err error) {
	s, err := r.store()
	if err != nil {
		return l, err
	}
	i, err := s.Find(text)
	if err != nil {
		return l, err
	}
	sum := sha256.Sum256([]byte(i.Digest + "\n" + i.Tree))
	tag, err := name.NewTag("localhost/fumehood:" + hex.EncodeToString(sum[:16]))
	if err != nil {
		return l, err
	}
	return hostbox.Loadable{Image: s.settings(i), Name: i.Name, Reference: tag.String(), Built: i.Built && i.Owner == "",
		Save: func(ctx context.Context, w io.Writer, moved func()) error {
			packed, release, err := s.packed(ctx, i, gzip.NoCompression, moved)
			if err != nil {
				return err
			}
			defer release()
			return tarball.Write(tag, packed, contextWriter{ctx, w})
		}}, nil
}

// writeArchive writes a folder as a tar archive, in place of an earlier file once it is complete.
func writeArchive(ctx context.Context, dir, file string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".fumehood-export-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	archive := tar.NewWriter(contextWriter{ctx, f})
	err = errors.Join(addFolder(archive, dir, true), archive.Close(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	return err
}

// contextWriter fails when its context ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.w.Write(p)
}
