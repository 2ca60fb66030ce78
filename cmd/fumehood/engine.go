package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// recoverTimeout limits the cleanup after dead processes of Fumehood.
const recoverTimeout = 30 * time.Second

// recheckPause is how long runs in fresh sandboxes skip a dead server whose sandboxes lived. Each of many such runs in
// a row would otherwise examine each sandbox, for half a millisecond of CPU.
const recheckPause = time.Minute

// defaultBackend is the backend of runs that name none. Native needs Linux.
var defaultBackend = map[bool]string{true: "native", false: "docker"}[runtime.GOOS == "linux"]

// openedEngine is an engine over the backends of this system.
type openedEngine struct {
	*engine.Engine
	backends  *backend.Set
	recovered sync.WaitGroup
}

func (a *app) openBackends() (*backend.Set, error) {
	if a.Backends != nil {
		return a.Backends(a.backendOptions())
	}
	return backend.Open(a.backendOptions())
}

func (a *app) backendOptions() backend.Options {
	o := backend.Options{RunDir: a.env().RunDir(), Libexec: a.env().Get("FUMEHOOD_LIBEXEC"),
		CacheDir: a.env().CacheDir(), Lack: a.Lack, LookupEnv: a.LookupEnv, Image: a.containers.image,
		ContainerRuntime: a.containers.runtime, FetchImages: a.containers.pull != pullNever,
		RefreshImages: a.containers.pull == pullAlways,
		ImageBytes:    int64(a.containers.imageBytes)}
	if cache := a.env().CacheDir(); cache != "" {
		o.Images = filepath.Join(cache, "images")
	}
	if !a.quiet && o.FetchImages {
		o.Progress = a.Stderr
	}
	if a.line.fresh {
		o.Recheck = recheckPause
	}
	if a.verbose {
		o.Stderr, _ = a.Stderr.(*os.File)
	}
	return o
}

func (a *app) openEngine(config engine.Config) (*openedEngine, error) {
	backends, err := a.openBackends()
	if err != nil {
		return nil, err
	}
	config.Backends = backends.Backends
	config.Languages, config.Tool = lang.All(), a.backendOptions().Tool
	if config.Checks.Find == nil {
		config.Checks.Find = check.Policy{}.Find
	}
	if config.Gate == nil {
		config.Gate = a.gate(egress.Limits{})
	}
	config.Volumes.Store = a.volumeStore()
	config.Log = a.logger()
	e, err := engine.New(config)
	if err != nil {
		return nil, errors.Join(err, backends.Close())
	}
	return &openedEngine{Engine: e, backends: backends}, nil
}

// gate returns the gate of the sandboxes' networks.
func (a *app) gate(l egress.Limits) sandbox.Gate {
	if a.Gate != nil {
		return a.Gate
	}
	return &egress.Host{Limits: l}
}

// withEngine calls do with an engine that installs packages, and closes it afterwards, also after an interrupt.
func (a *app) withEngine(config engine.Config, f *packageFlags, do func(e *openedEngine) error) (err error) {
	if config.Packages, err = a.packager(f); err != nil {
		return err
	}
	e, err := a.openEngine(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return do(e)
}

// recoverAside calls recover in the background. The Close of the engine waits for it.
func (a *app) recoverAside(ctx context.Context, e *openedEngine) {
	e.recovered.Go(func() { a.recover(ctx, e.backends) })
}

// recover removes the remains of dead processes of Fumehood. It only logs failures: the next start tries again.
func (a *app) recover(ctx context.Context, backends *backend.Set) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	for _, b := range backends.Backends {
		if err := b.Reap(ctx); err != nil && ctx.Err() == nil {
			a.logger().Warn("could not clean up after an earlier process", "backend", b.Name(), "error", err)
		}
	}
}

// Close ends all runs, waits until their sandboxes are removed, and closes the backends.
func (e *openedEngine) Close() error {
	err := e.Engine.Close()
	e.recovered.Wait()
	return errors.Join(err, e.backends.Close())
}
