// Package fumehood runs untrusted code from a Go program, isolated by the operating system.
//
//	f, err := fumehood.Open(fumehood.Config{})
//	if err != nil { ... }
//	defer f.Close()
//	result, err := f.Run(ctx, fumehood.OneShot{Request: sandbox.Request{Language: "python", Code: []byte(code)}})
//
// The status of a result says how the program ended. An error means that Fumehood itself failed or refused.
// Package sandbox declares the vocabulary: specs, limits, requests, results, hints and errors.
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
	"github.com/fumehood-dev/fumehood/internal/volume"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Config configures Open. The zero value works.
type Config struct {
	Backend string // default backend; "" is "native", "auto" the strongest available on this host

	Slots int // concurrent runs; others wait. 0 is twice the CPUs, at least 4
	Warm  int // sandboxes kept ready for each spec in use; each serves one run

	Defaults sandbox.Limits // limits of a spec that names none; a zero field is that of sandbox.DefaultLimits
	Max      sandbox.Limits // highest limits that a spec may name; a zero field is no maximum

	// AllowUnenforced names limits, such as "memory", that every run waives where this host cannot enforce them:
	// an ordinary user without systemd has no control groups. Without it, such runs are refused.
	AllowUnenforced []string

	// Libexec is the folder of the guest program, as `make guest` builds it. "" means $FUMEHOOD_LIBEXEC, else the
	// folder of the executable, else a build from the module's source into the user's cache.
	Libexec string

	Sandboxes int // most living sandboxes; 0 is 512

	// Volumes is the absolute path of the folder of named volumes, which processes may share; "" is none.
	Volumes string

	Log *slog.Logger // nil discards
}

// Fumehood makes sandboxes and runs code in them. Its methods are safe for concurrent use.
type Fumehood struct {
	backends *backend.Set
	engine   *engine.Engine
	volumes  *volume.Store // nil without Config.Volumes
}

// recoverTimeout limits how long Open cleans up after dead processes, for each backend.
const recoverTimeout = 30 * time.Second

// Open opens the backends and removes the sandboxes of processes that died. It makes no sandbox yet.
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
	var packager sandbox.Packager // without a cache, none are installed
	if o.CacheDir != "" {
		packager = packages.New(packages.Config{Dir: filepath.Join(o.CacheDir, "packages"), Log: c.Log})
	}
	var volumes *volume.Store
	kept := engine.VolumeConfig{}
	if c.Volumes != "" {
		volumes = volume.New(volume.Options{Dir: c.Volumes, RunDir: o.RunDirOrDefault(), Lives: backend.HasBox})
		kept.Store = volumes
	}
	e, err := engine.New(engine.Config{
		Volumes:  kept,
		Backends: backends.Backends, Default: c.Backend, Languages: lang.All(), Tool: o.Tool,
		Checks: engine.Checks{Find: check.Policy{}.Find}, Gate: &egress.Host{}, Packages: packager,
		Slots: c.Slots, Warm: c.Warm, Defaults: c.Defaults, Max: c.Max, AllowUnenforced: c.AllowUnenforced,
		Living: engine.LivingConfig{Most: c.Sandboxes}, Log: c.Log,
	})
	if err != nil {
		return nil, errors.Join(err, backends.Close())
	}
	f := &Fumehood{backends: backends, engine: e, volumes: volumes}
	for _, b := range backends.Backends {
		ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
		err := b.Reap(ctx)
		cancel()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// Run runs one request in a fresh sandbox and removes the sandbox. A failed program is a status of the result.
// If ctx ends first, the status is sandbox.StatusCanceled. The kind of an error is returned by sandbox.KindOf:
// Invalid and TooLarge for a wrong request, Busy when all slots and the queue are full, Unsupported where the backend
// or the host cannot enforce it, Unavailable while closing.
func (f *Fumehood) Run(ctx context.Context, run OneShot) (*sandbox.Result, error) {
	return f.engine.Run(ctx, engine.OneShot{Backend: run.Backend, Spec: run.Spec, Request: run.Request})
}

// Create makes a living sandbox. If there is one of the same name, Create returns that one, and created is false.
// The kind of an error is Invalid, Quota, Busy, Unsupported or Unavailable.
func (f *Fumehood) Create(ctx context.Context, c Create) (s *Sandbox, created bool, err error) {
	living, created, err := f.engine.Create(ctx, engine.Create{
		Name: c.Name, Backend: c.Backend, Spec: c.Spec, Ends: engine.Ends(c.Ends),
	})
	if err != nil {
		return nil, false, err
	}
	return &Sandbox{living}, created, nil
}

// Sandbox finds a living sandbox by its id or name. NotFound says why it ended, if that is known.
func (f *Fumehood) Sandbox(ctx context.Context, name string) (*Sandbox, error) {
	s, err := f.engine.Sandbox(ctx, "", name)
	if err != nil {
		return nil, err
	}
	return &Sandbox{s}, nil
}

// Probe reports what each backend can enforce on this host.
func (f *Fumehood) Probe(ctx context.Context) []Probe {
	var probes []Probe
	for _, p := range f.engine.Probe(ctx) {
		probes = append(probes, Probe{Backend: p.Backend, Posture: p.Posture, Features: p.Features, Err: p.Err,
			Refusal: p.Refusal, Unenforced: p.Without})
	}
	return probes
}

// Probe describes one backend on this host.
type Probe struct {
	Backend  string
	Posture  sandbox.Posture // invalid if Err is set
	Features []sandbox.Feature
	Err      error // why the backend does not work here

	Refusal    error               // why it refuses a request with the defaults; nil if it accepts it
	Unenforced []sandbox.LimitName // limits that it does not enforce for such a request, because Config waives them
}

// Languages lists the supported languages.
func (f *Fumehood) Languages() []sandbox.Language { return f.engine.Languages() }

// Close cancels all runs, ends all living sandboxes, waits until they are removed, and closes the backends.
func (f *Fumehood) Close() error {
	err := f.engine.Close()
	if f.volumes != nil {
		err = errors.Join(err, f.volumes.Close())
	}
	return errors.Join(err, f.backends.Close())
}

// CreateVolume makes a named volume, for Spec.Volumes. The kind of an error is Invalid, Exists, or Unsupported: this
// host cannot bound it, and the request does not waive that.
func (f *Fumehood) CreateVolume(ctx context.Context, r sandbox.VolumeRequest) (sandbox.NamedVolume, error) {
	store, err := f.engine.Volumes()
	if err != nil {
		return sandbox.NamedVolume{}, err
	}
	r.Owner = ""
	return store.Create(ctx, r)
}

// Volumes lists the named volumes, with the sandboxes that use them.
func (f *Fumehood) Volumes() ([]sandbox.NamedVolume, error) {
	store, err := f.engine.Volumes()
	if err != nil {
		return nil, err
	}
	return store.List("", nil)
}

// RemoveVolume removes a named volume with its files. The kind of an error is NotFound, or Exists while a sandbox uses
// it.
func (f *Fumehood) RemoveVolume(ctx context.Context, name string) error {
	store, err := f.engine.Volumes()
	if err != nil {
		return err
	}
	return store.Remove(ctx, "", name)
}
