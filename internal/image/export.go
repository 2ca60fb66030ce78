package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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
	dir, release, err := s.Hold(i)
	if err != nil {
		return err
	}
	defer release()
	exported, err := fromRoot(dir)
	if err != nil {
		return err
	}
	config, err := exported.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: i.AddedAt}
	config.Config = v1.Config{Env: i.Config.Env, User: i.Config.User, WorkingDir: i.Config.Dir,
		Entrypoint: i.Config.Entrypoint, Cmd: i.Config.Command}
	if exported, err = mutate.ConfigFile(exported, config); err != nil {
		return err
	}
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
	err = errors.Join(addFolder(archive, dir), archive.Close(), f.Chmod(0o644), f.Close())
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
