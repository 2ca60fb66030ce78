package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The image that is pulled: files of this host, in layers.
const (
	imageLayers = 3
	layerBytes  = 50 << 20
	largestFile = 4 << 20
	imagePulls  = 3
	imageSteps  = 10 // of a template
)

// imageFigures are medians; 0 is not measured.
type imageFigures struct {
	pull, tar, docker time.Duration // of one image: pulled, unpacked by tar -xz, pulled by docker
	cached            time.Duration // a build of imageSteps steps that an earlier build made

	sandboxes                 int   // idle ones with a context, for the memory of each
	hostPrivate, imagePrivate int64 // private bytes of one with the host's root, and of one with an image

	cold, warm [2]time.Duration // of a fresh Python: of the host's root, and of an image
}

// images measures the pull of an image from a registry on loopback, a cached build, and the memory of sandboxes.
func (r *report) images(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "bench-images-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/bench/image:1"
	layers, err := benchImage(dir, ref)
	if err != nil {
		return err
	}
	f := &r.figures.images
	var pulls, tars, dockers []time.Duration
	for n := range imagePulls {
		home := filepath.Join(dir, fmt.Sprint("home", n))
		took, err := r.took(ctx, home, r.binary, "image", "pull", "--quiet", ref)
		if err != nil {
			return err
		}
		pulls = append(pulls, took)
		began := time.Now()
		into := filepath.Join(dir, fmt.Sprint("tar", n))
		for _, layer := range layers {
			if err = os.MkdirAll(into, 0o700); err == nil {
				_, err = r.took(ctx, home, "tar", "-xzf", layer, "-C", into)
			}
			if err != nil {
				return err
			}
		}
		tars = append(tars, time.Since(began))
		if os.Getenv("DOCKER_HOST") != "" {
			if took, err = r.took(ctx, home, "docker", "pull", "--quiet", ref); err != nil {
				return err
			}
			dockers = append(dockers, took)
			if _, err = r.took(ctx, home, "docker", "rmi", ref); err != nil {
				return err
			}
			f.docker = summarize(dockers).p50
		}
	}
	f.pull, f.tar = summarize(pulls).p50, summarize(tars).p50
	if err := r.cachedBuild(ctx, filepath.Join(dir, "home0"), ref); err != nil {
		return err
	}
	home, err := r.importPython(ctx, dir)
	if err != nil {
		return err
	}
	if err := r.imageMemory(ctx, home); err != nil {
		return err
	}
	if err := r.imageStarts(ctx, home); err != nil {
		return err
	}
	f.write(r.w)
	return nil
}

func (f *imageFigures) write(w io.Writer) {
	t := newTable(w, fmt.Sprintf("Images, %d MB compressed in %d layers", imageLayers*layerBytes>>20, imageLayers),
		"figure", "ms")
	for _, line := range []struct {
		what string
		took time.Duration
	}{{"image pull from loopback, with unpacking", f.pull}, {"tar -xz of its layers", f.tar}, {"docker pull", f.docker},
		{fmt.Sprintf("cached template build of %d steps", imageSteps), f.cached}} {
		if line.took > 0 {
			t.line(line.what, fmt.Sprintf("%.0f", milliseconds(line.took)))
		}
	}
	t.Flush()
	t = newTable(w, fmt.Sprintf("Private memory of a sandbox with a context, of %d", f.sandboxes), "root", "MiB")
	t.line("of the host", mib(f.hostPrivate))
	t.line("of one image", mib(f.imagePrivate))
	t.Flush()
	t = newTable(w, "Fresh Python over HTTP, p50 ms", "sandboxes", "host's root", "image")
	t.line("made for each run", ms(f.cold[0]), ms(f.cold[1]))
	t.line("kept ready", ms(f.warm[0]), ms(f.warm[1]))
	t.Flush()
}

// took runs a program with a home folder, and returns how long it took.
func (r *report) took(ctx context.Context, home, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s %q: %w: %s", program, args, err, out)
	}
	return time.Since(began), nil
}

// cachedBuild measures a build whose steps are all cached. It needs root.
func (r *report) cachedBuild(ctx context.Context, home, ref string) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(r.w, "images: builds are not measured without root")
		return nil
	}
	if err := os.WriteFile(filepath.Join(home, "source"), []byte("text\n"), 0o600); err != nil {
		return err
	}
	build := []string{"template", "build", "bench", home, "--quiet", "--from", ref}
	for n := range imageSteps {
		build = append(build, "--copy", fmt.Sprintf("source:/made/%d", n))
	}
	var all []time.Duration
	for n := range imagePulls + 1 {
		took, err := r.took(ctx, home, r.binary, build...)
		if err != nil {
			return err
		}
		if n > 0 { // the first one makes the layers
			all = append(all, took)
		}
	}
	r.figures.images.cached = summarize(all).p50
	return nil
}

// benchImage pushes an image of files of this host to a registry, and returns its layers as .tar.gz files.
func benchImage(dir, ref string) (files []string, err error) {
	to, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	var out *layerFile
	image := empty.Image
	finish := func() error {
		if err := out.Close(); err != nil {
			return err
		}
		layer, err := tarball.LayerFromFile(out.file.Name())
		if err == nil {
			files = append(files, out.file.Name())
			image, err = mutate.AppendLayers(image, layer)
		}
		out = nil
		return err
	}
	err = filepath.WalkDir("/usr/lib", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if info, err := e.Info(); err != nil || info.Size() > largestFile {
			return err
		}
		if out == nil {
			if out, err = newLayerFile(filepath.Join(dir, fmt.Sprintf("layer%d.tar.gz", len(files)))); err != nil {
				return err
			}
		}
		if err := out.add(path); err != nil {
			return err
		}
		if info, err := out.file.Stat(); err != nil || info.Size() < layerBytes {
			return err
		}
		if err := finish(); err != nil || len(files) < imageLayers {
			return err
		}
		return fs.SkipAll
	})
	if err == nil && out != nil {
		err = finish()
	}
	if err == nil {
		err = remote.Write(to, image)
	}
	return files, err
}

// layerFile is a compressed layer that is written.
type layerFile struct {
	file *os.File
	zip  *gzip.Writer
	tar  *tar.Writer
}

func newLayerFile(path string) (*layerFile, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	zip := gzip.NewWriter(f)
	return &layerFile{f, zip, tar.NewWriter(zip)}, nil
}

func (l *layerFile) add(path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = l.tar.WriteHeader(&tar.Header{Name: path[1:], Size: int64(len(text)), Mode: 0o644})
	}
	if err == nil {
		_, err = l.tar.Write(text)
	}
	return err
}

func (l *layerFile) Close() error { return errors.Join(l.tar.Close(), l.zip.Close(), l.file.Close()) }

func (f *imageFigures) targets() []target {
	cached := math.NaN()
	if f.cached > 0 {
		cached = milliseconds(f.cached)
	}
	return []target{
		atMost("an image is pulled and unpacked, over tar -xz", ratio(f.pull, f.tar), 1.5, "x"),
		atMost("an image is pulled and unpacked, over docker pull", ratio(f.pull, f.docker), 0.7, "x"),
		atMost("a cached build of ten steps", cached, 300, " ms"),
		atMost("private memory of a sandbox with an image, over one with the host's root",
			ratio(time.Duration(f.imagePrivate), time.Duration(f.hostPrivate)), 1.1, "x"),
		atMost("fresh Python of an image, over one of the host's root", ratio(f.cold[1], f.cold[0]), 1.3, "x"),
		atMost("the same in sandboxes kept ready", ratio(f.warm[1], f.warm[0]), 1.3, "x"),
	}
}
