package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Import adds an image from a file or folder: an archive of docker save, an OCI archive or layout, or a folder with a
// root file system. named is its name here; "" takes the one in an archive of docker save.
func (s *Store) Import(ctx context.Context, file, named string, report func(string)) (Image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Image{}, sandbox.Invalidf("image", "%v", err)
	}
	var image v1.Image
	switch {
	case info.IsDir() && exists(filepath.Join(file, "oci-layout")):
		image, err = fromLayout(file)
	case info.IsDir():
		var end func()
		image, end, err = fromRoot(ctx, file, gzip.NoCompression, false, func() {})
		defer end()
	default:
		return s.importArchive(ctx, file, named, report)
	}
	if err != nil {
		return Image{}, err
	}
	return s.addNamed(ctx, named, image, report)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

func (s *Store) addNamed(ctx context.Context, named string, image v1.Image, report func(string)) (Image, error) {
	if named == "" {
		return Image{}, &sandbox.Error{Kind: sandbox.Invalid, Op: "image", Msg: "the image has no name here",
			Fix: "name it: --name NAME"}
	}
	full, err := fullName(named)
	if err != nil {
		return Image{}, err
	}
	return s.add(ctx, source{name: full, image: image, report: report, began: time.Now()})
}

// importArchive adds the image in an archive.
func (s *Store) importArchive(ctx context.Context, file, named string, report func(string)) (Image, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err == nil && len(manifest) > 0 {
		if len(manifest) > 1 {
			return Image{}, invalid("%s has %d images; save one of them alone", file, len(manifest))
		}
		if named == "" && len(manifest[0].RepoTags) > 0 {
			named = manifest[0].RepoTags[0]
		}
		image, err := tarball.ImageFromPath(file, nil)
		if err != nil {
			return Image{}, unreadable(err)
		}
		return s.addNamed(ctx, named, image, report)
	}
	draft, err := s.trees.NewDraft() // a place that the next start sweeps
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = draft.Discard() }() // the next start tries again
	if err := s.extractLayout(file, draft.Files()); err != nil {
		return Image{}, err
	}
	image, err := fromLayout(draft.Files())
	if err != nil {
		return Image{}, err
	}
	return s.addNamed(ctx, named, image, report)
}

// extractLayout copies the files of an OCI archive that belong to a layout.
func (s *Store) extractLayout(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := s.Limits.Bytes
	archive := tar.NewReader(f)
	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n > maxBlobs {
			return invalid("%s is neither an archive of docker save nor an OCI archive", file)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		blob := strings.HasPrefix(name, "blobs/sha256/") && strings.Count(name, "/") == 2
		if h.Typeflag != tar.TypeReg || !blob && name != "index.json" && name != "oci-layout" {
			continue
		}
		if left -= h.Size; left < 0 {
			return tooLarge("bytes")
		}
		if err := writeFile(root, name, archive); err != nil {
			return err
		}
	}
	if !exists(filepath.Join(dir, "oci-layout")) {
		return invalid("%s is neither an archive of docker save nor an OCI archive", file)
	}
	return nil
}

const maxBlobs = 10_000 // files of an OCI archive

func writeFile(root *os.Root, name string, content io.Reader) (err error) {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// fromLayout returns the image for this machine in an OCI layout.
func fromLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	for depth := 0; depth < 3; depth++ { // an index may contain indexes
		images, err := partial.FindImages(index, func(d v1.Descriptor) bool {
			p := d.Platform
			return p == nil || p.OS == "linux" && p.Architecture == runtime.GOARCH
		})
		if err != nil {
			return nil, unreadable(err)
		}
		if len(images) > 0 {
			return images[0], nil
		}
		below, err := partial.FindIndexes(index, func(d v1.Descriptor) bool {
			return d.MediaType == types.OCIImageIndex || d.MediaType == types.DockerManifestList
		})
		if err != nil || len(below) == 0 {
			break
		}
		index = below[0]
	}
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "image",
		Msg: "it has no image for linux/" + runtime.GOARCH}
}

// fromRoot returns an image with one layer, a folder with a root file system, until end or until ctx ends. Its links
// are kept as links. asRoot is as in addFolder. moved is called while the folder is read.
func fromRoot(ctx context.Context, dir string, compression int, asRoot bool, moved func()) (i v1.Image, end func(),
	err error) {
	ctx, cancel := context.WithCancel(ctx)
	var writers sync.WaitGroup
	end = func() {
		cancel()
		writers.Wait()
	}
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
		writers.Go(func() { // it ends when the reader closes, too
			defer stop()
			archive := tar.NewWriter(writerFunc(func(p []byte) (int, error) {
				moved()
				return w.Write(p)
			}))
			err := addFolder(archive, dir, asRoot)
			w.CloseWithError(errors.Join(err, archive.Close()))
		})
		return r, nil
	}
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(compression))
	if err == nil {
		i, err = mutate.AppendLayers(empty.Image, layer)
	}
	if err != nil && ctx.Err() != nil {
		return nil, end, context.Cause(ctx)
	}
	if err != nil {
		return nil, end, unreadable(err)
	}
	return i, end, nil
}

// writerFunc is a Write method.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// addFolder writes the files of a folder, without sockets, pipes and devices. Each file is opened below the folder, so
// that a link in it leads nowhere else. With asRoot, root owns all of them in the archive.
func addFolder(to *tar.Writer, dir string, asRoot bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := ""
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			if target, err = root.Readlink(name); err != nil {
				return err
			}
		case fs.ModeDir, 0:
		default:
			return nil
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		h.Name = name
		if asRoot {
			h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		}
		if err := to.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, f)
		return errors.Join(err, f.Close())
	})
}
