// Package backend is the list of backends: whoever wires a program together opens them here, and hands them to the engine as
// values.
package backend

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/backend/docker"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/internal/rundir"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Options are what the backends are opened with.
type Options struct {
	Libexec  string   // a folder that holds the guest program; "" looks in the usual places
	CacheDir string   // where a guest program that was built from source is kept; "" is not to build one
	RunDir   string   // where live state is; "" is rundir.Default
	Stderr   *os.File // receives what a failing guest says last; nil discards it
	Lack     []string // what this host is to be taken to lack, for tests of what happens then

	LookupEnv func(name string) (string, bool) // reads the environment in which engines and the run folder are looked for; nil is the process's

	// Of docker and podman.
	Image            string    // of sandboxes that name none; "" is the backend's choice
	ContainerRuntime string    // "" is the engine's default
	FetchImages      bool      // those that are not there yet
	Progress         io.Writer // receives what is said while one is fetched; nil discards it
}

// complete chooses what was left open. A run folder that others could have planted is an error here already, the same for all backends; each
// looks again before it uses it.
func (o *Options) complete() error {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.RunDir == "" {
		o.RunDir = rundir.Default(o.LookupEnv)
	}
	return rundir.Check(o.RunDir)
}

// containers are the backends whose sandboxes are containers of an engine, which every system can have.
func containers(o Options) []sandbox.Backend {
	var list []sandbox.Backend
	for _, name := range []string{docker.Name, docker.Podman} {
		list = append(list, docker.New(docker.Options{Name: name, RunDir: filepath.Join(o.RunDir, name), LookupEnv: o.LookupEnv, Image: o.Image,
			Lack: o.Lack, Runtime: o.ContainerRuntime, Fetch: o.FetchImages, Progress: o.Progress, Guest: func(arch string) (*os.File, error) {
				program, err := libexec.Guest(libexec.Options{Dir: o.Libexec, CacheDir: o.CacheDir, Arch: arch})
				if err != nil {
					return nil, err
				}
				return program.Open()
			}}))
	}
	return list
}

// Set is the backends that this system can have, best default first.
type Set struct {
	Backends []sandbox.Backend
	files    []*os.File // that the backends use, closed after them
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
