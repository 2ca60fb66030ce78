// Package fumehood runs untrusted code from a Go program, isolated by the operating system.
//
//	g, err := fumehood.Open(fumehood.Config{})
//	if err != nil { ... }
//	defer g.Close()
//	result, err := g.Run(ctx, fumehood.Run{Request: sandbox.Request{Language: "python", Code: []byte(code)}})
//
// The result's status says how the program ended. An error means that Fumehood itself failed.
package fumehood

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Config configures Open. The zero value works.
type Config struct {
	Backend string // default backend; "" is "native", "auto" the strongest available on this host

	Slots int // concurrent runs; more wait. 0 is twice the CPUs, at least 4
	Warm  int // sandboxes kept ready for each kind of run in use; each serves one run. 0 is none

	Defaults sandbox.Limits // limits of a run that names none; a zero field is that of sandbox.DefaultLimits
	Max      sandbox.Limits // highest limits that a run may name; a zero field is no maximum. Open rejects Defaults above it

	// Libexec is the folder of the guest program, as `make guest` builds it. "" means $FUMEHOOD_LIBEXEC, else the executable's folder,
	// else a build from the module's source into the user's cache.
	Libexec string

	Sandboxes int // most living sandboxes; 0 is 512

	Log *slog.Logger // nil discards
}

// Run is one execution in a sandbox of its own: the sandbox's Spec and the Request to run in it.
type Run = engine.Run

// Living asks for a living sandbox; Exec for one execution in it. Sandbox, Context and Execution are what there is then: state stays between
// executions, until the sandbox or its Fumehood is closed.
type (
	Living    = engine.Living
	Exec      = engine.Exec
	Sandbox   = engine.Sandbox
	Context   = engine.Context
	Execution = engine.Execution
	Event     = engine.Event
)

// Probed is what one backend reports about this host.
type Probed = engine.Probed

// Fumehood makes sandboxes and runs code in them. Its methods are safe for concurrent use.
type Fumehood struct {
	backends *backend.Set
	engine   *engine.Engine
}

// recoverTimeout limits how long Open cleans up after dead processes, for each backend.
const recoverTimeout = 30 * time.Second

// Open opens the backends and removes what earlier processes that died left behind. It makes no sandbox yet.
func Open(c Config) (*Fumehood, error) {
	o := backend.Options{Libexec: c.Libexec, FetchImages: true}
	if o.Libexec == "" {
		o.Libexec = os.Getenv("FUMEHOOD_LIBEXEC")
	}
	if cache, err := os.UserCacheDir(); err == nil {
		o.CacheDir = filepath.Join(cache, "fumehood")
	}
	backends, err := backend.Open(o)
	if err != nil {
		return nil, err
	}
	var packages sandbox.Packager // without a cache, none are installed
	if o.CacheDir != "" {
		packages = deps.New(deps.Config{Dir: filepath.Join(o.CacheDir, "packages"), Log: c.Log})
	}
	e, err := engine.New(engine.Config{Backends: backends.Backends, Default: c.Backend, Languages: lang.All(), Tool: o.Tool, Checks: engine.Checks{Find: check.Policy{}.Find}, Gate: &egress.Host{}, Packages: packages, Slots: c.Slots, Warm: c.Warm,
		Defaults: c.Defaults, Max: c.Max, Living: engine.LivingConfig{Most: c.Sandboxes}, Log: c.Log})
	if err != nil {
		return nil, errors.Join(err, backends.Close())
	}
	g := &Fumehood{backends: backends, engine: e}
	for _, b := range backends.Backends {
		ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
		err := b.Reap(ctx)
		cancel()
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Run makes a sandbox, runs one request in it and removes it. If ctx ends first, the status is sandbox.StatusCanceled.
func (g *Fumehood) Run(ctx context.Context, run Run) (*sandbox.Result, error) {
	return g.engine.Run(ctx, run)
}

// Create makes a living sandbox, or returns the one of the same name.
func (g *Fumehood) Create(ctx context.Context, asks Living) (*Sandbox, error) {
	s, _, err := g.engine.Create(ctx, asks)
	return s, err
}

// Probe reports which isolation layers are available on this host.
func (g *Fumehood) Probe(ctx context.Context) []Probed { return g.engine.Probe(ctx) }

// Languages lists the supported languages.
func (g *Fumehood) Languages() []sandbox.Language { return g.engine.Languages() }

// Close cancels all runs, ends all living sandboxes, waits until they are removed, and closes the backends.
func (g *Fumehood) Close() error { return errors.Join(g.engine.Close(), g.backends.Close()) }
