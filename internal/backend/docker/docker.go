// Package docker builds sandboxes as containers of an engine that speaks Docker's API: Docker's own, or Podman's, which is the same code
// under a name of its own. The container's first process is the guest, which comes in by a volume, so that any image of the engine's
// processor works, without a shell or tools in it.
//
// The walls are the engine's: what it was told is compared with what it says it did, and what it cannot do is refused or accepted by
// name. Over them the guest raises the same filter of system calls as on the native backend.
package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var (
	_ sandbox.Backend     = (*Backend)(nil)
	_ sandbox.Preflighter = (*Backend)(nil)
	_ sandbox.Featured    = (*Backend)(nil)
)

// The words by which users choose this backend, with the one engine or the other.
const (
	Name   = "docker"
	Podman = "podman"
)

// DefaultImage is the root of sandboxes that name none.
const DefaultImage = "python:3.12-slim"

// Options configure a Backend.
type Options struct {
	// Name is Name or Podman. It says where the engine is looked for.
	Name string

	// Host is where the engine is, as DOCKER_HOST has it. "" looks where that engine's own programs do.
	Host string

	// LookupEnv reads the environment in which the engine is looked for; nil is an empty one.
	LookupEnv func(name string) (string, bool)

	// Guest opens the guest program for Linux on a processor, as Go names them.
	Guest func(arch string) (*os.File, error)

	// RunDir is where live state is: locks, sockets.
	RunDir string

	// Image is the root of sandboxes that name none; "" is DefaultImage.
	Image string

	// Runtime is the engine's runtime that containers are run by; "" is the engine's default.
	Runtime string

	// Fetch has an image fetched that the engine does not have.
	Fetch bool

	// Progress receives what is said while an image is fetched; nil discards it.
	Progress io.Writer

	// Bridge has the guest dialled through the engine even where its socket could be reached.
	Bridge bool

	// Lack is what the engine is to be taken to lack: controllers of control groups, by name. It is for the test that forces every
	// downgrade.
	Lack []string

	// FailAt makes the named step of creation fail. It is for the test that walks through all of them.
	FailAt string
}

// Backend makes sandboxes on one engine.
type Backend struct {
	options Options
	engine  *engine

	mu sync.Mutex // guards in
	in *instance.Instance
}

// New returns a backend. It touches nothing yet.
func New(o Options) *Backend {
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Image == "" {
		o.Image = DefaultImage
	}
	return &Backend{options: o, engine: &engine{options: &o, meeting: make(chan struct{}, 1), filled: map[string]string{}, suits: map[string]bool{}}}
}

// Name is the word by which users choose this backend.
func (b *Backend) Name() string { return b.options.Name }

// instance opens this process's instance when it is first needed, and removes containers that no instance knows.
func (b *Backend) instance(ctx context.Context, to *connection) (*instance.Instance, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in != nil {
		return b.in, nil
	}
	in, err := instance.OpenWithoutGroups(b.options.RunDir)
	if err != nil {
		return nil, b.at("open instance", err)
	}
	if err := b.sweep(ctx, to); err != nil {
		return nil, errors.Join(b.at("remove what was left", err), in.Close())
	}
	b.in = in
	return in, nil
}

// The steps of creation at which FailAt can fail.
const (
	failDir    = "make box folder"
	failGuest  = "bring the guest"
	failCreate = "create container"
	failAttach = "attach to container"
	failStart  = "start container"
	failAwait  = "await guest"
	failVerify = "compare limits"
	failDirs   = "show host directories"
	failRecord = "write record"
)

// HostSteps lists the steps on the host's side at which FailAt can fail.
var HostSteps = []string{failDir, failGuest, failCreate, failAttach, failStart, failAwait, failVerify, failDirs, failRecord}

func (b *Backend) fail(step string, err error) error {
	if err == nil && b.options.FailAt == step {
		err = syscall.EIO
	}
	if err == nil {
		return nil
	}
	return b.at(step, err)
}

// at names the step that failed. What a later step already explained keeps its words.
func (b *Backend) at(step string, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: b.options.Name + ": " + step, Err: err}
}

// Close gives this process's instance up. It ends no box.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.in != nil {
		err = b.in.Close()
		b.in = nil
	}
	return errors.Join(err, b.engine.close())
}
