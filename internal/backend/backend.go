// Package backend lists the backends. A program opens them here and passes them to the engine as values.
package backend

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/backend/docker"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/libexec"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type Options struct {
	Libexec  string // folder of the guest program; "" looks in the usual places
	CacheDir string // keeps a guest program built from source; "" builds none
	RunDir   string // folder of live state; "" is rundir.Default

	// Recheck is how long Reap skips dead processes after it found only living boxes of them; 0 is never.
	Recheck time.Duration

	Stderr *os.File // receives a failing guest's last output; nil discards it
	Lack   []string // for tests: pretend that this host lacks these

	// environment for finding engines and the run folder; nil is the process's
	LookupEnv func(name string) (string, bool)

	// For docker and podman only.
	Image            string // default image; "" is the backend's choice
	ContainerRuntime string // "" is the engine's default

	Images      string // folder of the images of Fumehood; "" is none
	FetchImages bool   // fetch missing images
	// RefreshImages fetches every image again, once in this process, if its registry has another one by now.
	RefreshImages bool
	ImageBytes    int64     // bound of the images in that folder; 0 is image.DefaultMaxBytes
	Progress      io.Writer // receives the progress of a fetch; nil discards it
}

// complete fills in defaults, and refuses a run folder that others could have planted. Each backend checks it again
// before use.
func (o *Options) complete() error {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	o.RunDir = o.RunDirOrDefault()
	return rundir.Check(o.RunDir)
}

// OpenImages opens the store of images.
func (o Options) OpenImages() (*image.Store, error) {
	s, err := image.Open(o.Images)
	if err == nil && o.ImageBytes > 0 {
		s.Bound(o.ImageBytes)
	}
	return s, err
}

// RunDirOrDefault returns the folder of live state.
func (o Options) RunDirOrDefault() string {
	if o.RunDir != "" {
		return o.RunDir
	}
	lookup := o.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
	}
	return rundir.Default(lookup)
}

// images returns the store of images for backends, or nil.
func (o Options) images() hostbox.Images {
	if o.Images == "" {
		return nil
	}
	report := func(line string) {
		if o.Progress != nil {
			fmt.Fprintln(o.Progress, line)
		}
	}
	return &image.Roots{Open: o.OpenImages, Fetch: o.FetchImages, Refresh: o.RefreshImages, Report: report}
}

// containers returns the backends that use a container engine, available on every system.
func containers(o Options, images hostbox.Images) []sandbox.Backend {
	var list []sandbox.Backend
	for _, name := range []string{docker.Name, docker.Podman} {
		list = append(list, docker.New(docker.Options{Name: name, RunDir: filepath.Join(o.RunDir, name), Images: images,
			ImageBytes: cmp.Or(o.ImageBytes, image.DefaultMaxBytes), Recheck: o.Recheck,
			LookupEnv: o.LookupEnv, Image: o.Image,
			Lack: o.Lack, Runtime: o.ContainerRuntime, Fetch: o.FetchImages, Refresh: o.RefreshImages,
			Progress: o.Progress,
			Guest: func(arch string) (*os.File, error) {
				program, err := libexec.Guest(libexec.Options{Dir: o.Libexec, CacheDir: o.CacheDir, Arch: arch})
				if err != nil {
					return nil, err
				}
				return program.Open()
			}}))
	}
	return list
}

// Tool opens one of our programs that sandboxes run beside the code (sandbox.Compile).
func (o Options) Tool(name string) (io.ReadCloser, error) {
	return libexec.Tool(libexec.Options{Dir: o.Libexec, CacheDir: o.CacheDir}, name)
}

// HasBox reports whether a box of a sandbox exists below a run folder, of any backend.
func HasBox(runDir string, id sandbox.ID) (bool, error) {
	for _, dir := range []string{runDir, filepath.Join(runDir, "gvisor"), filepath.Join(runDir, docker.Name),
		filepath.Join(runDir, docker.Podman)} {
		if has, err := instance.HasBox(dir, id); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// Set holds the backends of this system, best default first.
type Set struct {
	Backends []sandbox.Backend
	files    []*os.File // used by the backends, closed after them
}

// Close releases what the backends hold. It ends no sandbox.
func (s *Set) Close() error {
	var errs []error
	for _, b := range s.Backends {
		errs = append(errs, b.Close())
	}
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
