// Package docker builds sandboxes as containers of an engine that speaks Docker's API: Docker, or Podman under a
// backend name of its own. The container's first process is the guest, which a volume contains, so any image for the
// engine's processor works, even without a shell or tools.
//
// The engine provides the isolation. The backend compares the engine's report with the request, and refuses unenforced
// limits unless they are waived by name. The guest adds the same seccomp filter as on the native backend.
package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var (
	_ sandbox.Backend     = (*Backend)(nil)
	_ sandbox.Preflighter = (*Backend)(nil)
	_ sandbox.Featured    = (*Backend)(nil)
)

const (
	Name   = "docker"
	Podman = "podman"
)

// DefaultImage is the root of sandboxes that name no image.
const DefaultImage = "python:3.12-slim"

type Options struct {
	// Name is Name or Podman, which have engines in different places.
	Name string

	// Host is the engine's address, as in DOCKER_HOST. "" searches like that engine's own programs.
	Host string

	// LookupEnv reads the environment for finding the engine; nil is an empty one.
	LookupEnv func(name string) (string, bool)

	// Guest opens the Linux guest program for a processor, by Go's name for it.
	Guest func(arch string) (*os.File, error)

	// RunDir is the folder of live state: locks, sockets.
	RunDir  string
	Recheck time.Duration // of dead owners with living boxes, by Reap; 0 is always

	// Image is the default image; "" is DefaultImage.
	Image string

	// Images is a store whose images are loaded into the engine; nil is none. Loaded ones may take ImageBytes there.
	Images     hostbox.Images
	ImageBytes int64

	// Runtime is the engine's container runtime; "" is the engine's default.
	Runtime string

	// Fetch permits fetching missing images.
	Fetch bool

	// Refresh fetches each image when it is first used, if Fetch permits it.
	Refresh bool

	// Progress receives the progress of a fetch; nil discards it.
	Progress io.Writer

	// Bridge dials the guest through the engine even if its socket is reachable.
	Bridge bool

	// Lack names cgroup controllers that the engine pretends to lack. For the test of all downgrades.
	Lack []string

	// FailAt makes the named creation step fail. For the test of all steps.
	FailAt string
}

type Backend struct {
	hostbox.Base
	options Options
	engine  *engine
	fresh   sync.Map // names of images that were fetched

	life     context.Context // ends with Close
	end      context.CancelFunc
	removals sync.WaitGroup // of removeLater
}

// New returns a backend. It does no I/O.
func New(o Options) *Backend {
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Image == "" {
		o.Image = DefaultImage
	}
	b := &Backend{Base: hostbox.Base{Backend: o.Name, RunDir: o.RunDir, FailAt: o.FailAt, Recheck: o.Recheck},
		options: o,
		engine: &engine{options: &o, connecting: make(chan struct{}, 1), loading: make(chan struct{}, 1),
			filled: map[string]string{}, suits: map[string]bool{}, used: map[string]time.Time{}}}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// instance opens this process's instance on first use, and removes containers that belong to no instance.
func (b *Backend) instance(ctx context.Context, to *connection) (*instance.Instance, error) {
	return b.Opened(instance.OpenWithoutGroups, func(*instance.Instance) error { return b.sweep(ctx, to) })
}

// The creation steps at which FailAt can fail.
const (
	failGuest  = "copy the guest"
	failCreate = "create container"
	failAttach = "attach to container"
	failStart  = "start container"
	failAwait  = "await guest"
	failVerify = "compare limits"
	failDirs   = "show host directories"
	failLink   = "make network interface"
)

// HostSteps lists the steps on the host's side at which FailAt can fail.
var HostSteps = []string{hostbox.StepDir, failGuest, failCreate, failAttach, failStart, failAwait, failVerify, failDirs,
	failLink, hostbox.StepRecord}

// Close releases this process's instance and its reattached boxes. It ends no living box.
func (b *Backend) Close() error {
	b.end()
	b.removals.Wait()
	return errors.Join(b.Base.Close(), b.engine.close())
}
