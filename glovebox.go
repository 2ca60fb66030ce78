// Package glovebox runs code that nobody has read, behind the walls of the operating system, from a Go program.
//
//	g, err := glovebox.Open(glovebox.Config{})
//	if err != nil { ... }
//	defer g.Close()
//	result, err := g.Run(ctx, glovebox.Run{Request: sandbox.Request{Language: "python", Code: []byte(code)}})
//
// What the program did is in the result's status; an error is what Glovebox itself failed at.
package glovebox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/internal/backend"
	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/internal/lang"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Config says how sandboxes are made. The zero value works.
type Config struct {
	Backend string // of runs that name none: "native" where it is empty, "auto" for the strongest that stands on this host

	Slots int // runs at the same time, more wait; 0 is twice the CPUs, and at least 4
	Warm  int // sandboxes kept ready for each kind of run that is in use; each serves one run. 0 is none

	Defaults sandbox.Limits // of a run that names none; a zero field is that of sandbox.DefaultLimits
	Max      sandbox.Limits // the most that a run may name; a zero field is no maximum. Defaults above it are refused

	// Libexec is a folder that holds the guest program, as `make guest` builds it. "" takes $GLOVEBOX_LIBEXEC, then looks beside
	// the executable, and last builds it once from the module's source into the user's cache.
	Libexec string

	Log *slog.Logger // nil discards
}

// Run is one execution in a sandbox of its own: what is asked of the sandbox, and what is to be run in it.
type Run = engine.Run

// Probed is what one backend says about this host.
type Probed = engine.Probed

// Glovebox makes sandboxes and runs code in them. Its methods may be called from several goroutines.
type Glovebox struct {
	backends *backend.Set
	engine   *engine.Engine
}

// recoverTimeout bounds what Open waits for the remains of dead processes to end.
const recoverTimeout = 30 * time.Second

// Open prepares to make sandboxes, and removes what processes of ours that died have left. It makes no sandbox yet.
func Open(c Config) (*Glovebox, error) {
	o := backend.Options{Libexec: c.Libexec, FetchImages: true}
	if o.Libexec == "" {
		o.Libexec = os.Getenv("GLOVEBOX_LIBEXEC")
	}
	if cache, err := os.UserCacheDir(); err == nil {
		o.CacheDir = filepath.Join(cache, "glovebox")
	}
	backends, err := backend.Open(o)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{Backends: backends.Backends, Default: c.Backend, Languages: lang.All(), Slots: c.Slots, Warm: c.Warm,
		Defaults: c.Defaults, Max: c.Max, Log: c.Log})
	if err != nil {
		return nil, errors.Join(err, backends.Close())
	}
	g := &Glovebox{backends: backends, engine: e}
	for _, b := range backends.Backends {
		ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
		_, err := b.Recover(ctx, nil)
		cancel()
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Run makes a sandbox, runs one request in it and ends it. When ctx ends first, the result says sandbox.StatusCanceled.
func (g *Glovebox) Run(ctx context.Context, run Run) (*sandbox.Result, error) {
	return g.engine.Run(ctx, run)
}

// Probe says which walls stand on this host.
func (g *Glovebox) Probe(ctx context.Context) []Probed { return g.engine.Probe(ctx) }

// Languages lists the languages that code may be in.
func (g *Glovebox) Languages() []sandbox.Language { return g.engine.Languages() }

// Close cancels all runs, waits until nothing of them is left, and releases the rest.
func (g *Glovebox) Close() error { return errors.Join(g.engine.Close(), g.backends.Close()) }
