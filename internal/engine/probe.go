package engine

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/nearest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Probed is what one backend says about this host.
type Probed struct {
	Backend  string
	Posture  sandbox.Posture // of no meaning where Err is set
	Features []sandbox.Feature
	Err      error // why the backend cannot work here

	Refusal error               // why it would refuse a default request; nil where it would not, or Err is set
	Without []sandbox.LimitName // limits that are not enforced for such a request, as the operator accepted
}

// Usable says whether this backend can serve a default request here.
func (p Probed) Usable() bool { return p.Err == nil && p.Refusal == nil }

// Probe asks every backend, all at once, what it can enforce on this host. The answers are in the order of Config.
func (e *Engine) Probe(ctx context.Context) []Probed {
	out := make([]Probed, len(e.config.Backends))
	var all sync.WaitGroup
	for i, b := range e.config.Backends {
		all.Go(func() { out[i] = e.probe(ctx, b) })
	}
	all.Wait()
	return out
}

// ProbeDefault asks the backend of runs that name none. For Auto that is the one that was chosen, or an error that says why none can be.
func (e *Engine) ProbeDefault(ctx context.Context) Probed {
	b, err := e.backend(ctx, "", nil)
	if err != nil {
		return Probed{Backend: e.defaultName(), Err: err}
	}
	return e.probe(ctx, b)
}

// probeTimeout limits the probe of one backend. It takes a fraction of a second, but a container engine or the kernel may hang.
const probeTimeout = 15 * time.Second

func (e *Engine) probe(ctx context.Context, b sandbox.Backend) (out Probed) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out.Backend = b.Name()
	defer func() {
		if p := recover(); p != nil {
			out.Err = e.panicked("probe "+b.Name(), p)
		}
	}()
	if f, ok := b.(sandbox.Featured); ok {
		out.Features = f.Features()
	}
	if out.Posture, out.Err = b.Probe(ctx); out.Err == nil {
		out.Without, out.Refusal = e.preflight(b, out.Posture, nil)
	}
	return out
}

// preflight says what becomes of a default request, given its waivers, on a backend that works here.
func (e *Engine) preflight(b sandbox.Backend, posture sandbox.Posture, accepted []string) (without []sandbox.LimitName, refusal error) {
	spec, err := e.fillSpec(Run{Spec: sandbox.Spec{AllowUnenforced: accepted}})
	if err != nil {
		return nil, err
	}
	f, ok := b.(sandbox.Preflighter)
	if !ok {
		if !posture.Ready {
			refusal = &sandbox.Error{Kind: sandbox.Unsupported, Op: b.Name(), Msg: "cannot enforce the default policy on this host"}
		}
		return nil, refusal
	}
	unenforced, refusal := f.Preflight(spec)
	for _, name := range unenforced {
		if spec.Waives(string(name)) {
			without = append(without, name)
		}
	}
	return without, refusal
}

// Capabilities is what a request may ask for.
type Capabilities struct {
	Default   string // the backend of a run that names none; Auto is resolved where it can be
	Backends  []Probed
	Languages []sandbox.Language
	Defaults  sandbox.Limits
	Max       sandbox.Limits // a zero field has no maximum of the operator's
	Slots     int
	Queue     int
}

// Capabilities probes the backends and says what a request may ask for.
func (e *Engine) Capabilities(ctx context.Context) Capabilities {
	offered := slices.DeleteFunc(e.Probe(ctx), func(p Probed) bool { return e.allowed(ctx, p.Backend, nil) != nil })
	c := Capabilities{
		Default:   e.defaultName(),
		Backends:  offered,
		Languages: e.config.Languages,
		Defaults:  e.config.Defaults,
		Max:       e.config.Max,
		Slots:     e.config.Slots,
		Queue:     e.config.Queue,
	}
	if c.Default == Auto {
		if name, ok := Strongest(c.Backends); ok {
			c.Default = name
		}
	}
	return c
}

func (e *Engine) defaultName() string {
	if e.config.Default == "" {
		return e.config.Backends[0].Name()
	}
	return e.config.Default
}

// autoChoice remembers which backend Auto chose. What a host can enforce does not change under a running server, and a probe costs more than
// a run.
type autoChoice struct {
	mu     sync.Mutex                 // guards all below; held while probing, so that a burst of first runs probes once
	chosen map[string]sandbox.Backend // by what the run waived; "" is nothing
	probed []Probed                   // when nothing could be chosen; the operator may fix that at any time,
	at     time.Time                  // so it is used for autoFresh only: without it, each refused request would cost a probe
}

const autoFresh = 5 * time.Second

// backend finds the backend that a run names. The waivers of the run matter only where Auto could choose none without them.
func (e *Engine) backend(ctx context.Context, name string, accepted []string) (sandbox.Backend, error) {
	if name == "" {
		name = e.defaultName()
	}
	for _, b := range e.config.Backends {
		if b.Name() == name {
			return b, e.allowed(ctx, name, accepted)
		}
	}
	if name != Auto {
		return nil, unknownBackend(name, e.config.Backends)
	}
	if name != e.defaultName() && e.config.Allowed != nil && !slices.Contains(e.config.Allowed, Auto) {
		return nil, e.notOffered(name) // it may come to one that is not
	}
	// Names beyond those that are known were refused before, so the keys are few.
	accepted = slices.Compact(slices.Sorted(slices.Values(accepted)))
	key := strings.Join(accepted, ",")
	e.auto.mu.Lock()
	defer e.auto.mu.Unlock()
	for _, key := range []string{"", key} {
		if b := e.auto.chosen[key]; b != nil {
			return b, nil
		}
	}
	if time.Since(e.auto.at) > autoFresh {
		probed := e.Probe(ctx)
		if err := ctx.Err(); err != nil { // what was not answered in time may be stronger, and the choice is for good
			return nil, err
		}
		e.auto.probed, e.auto.at = probed, time.Now()
	}
	probed := slices.Clone(e.auto.probed)
	i, ok := strongest(probed)
	switch {
	case ok:
		key = ""
	case key != "":
		for i := range probed {
			if p := &probed[i]; p.Err == nil {
				p.Without, p.Refusal = e.preflight(e.config.Backends[i], p.Posture, accepted)
			}
		}
		i, ok = strongest(probed)
	}
	if !ok {
		return nil, noneUsable(probed)
	}
	if e.auto.chosen == nil {
		e.auto.chosen = map[string]sandbox.Backend{}
	}
	e.auto.chosen[key] = e.config.Backends[i]
	return e.config.Backends[i], nil
}

// allowed refuses a backend that runs may not name here.
func (e *Engine) allowed(ctx context.Context, name string, accepted []string) error {
	if e.config.Allowed == nil || name == e.defaultName() || slices.Contains(e.config.Allowed, name) {
		return nil
	}
	if e.defaultName() == Auto || slices.Contains(e.config.Allowed, Auto) {
		if b, err := e.backend(ctx, Auto, accepted); err == nil && b.Name() == name {
			return nil
		}
	}
	return e.notOffered(name)
}

func (e *Engine) notOffered(name string) error {
	err := sandbox.Invalidf("backend", "%s is not offered here", name)
	err.Fix = "leave it out, or use one of " + strings.Join(e.config.Allowed, ", ")
	return err
}

var kernelRank = map[sandbox.Kernel]int{sandbox.KernelShared: 1, sandbox.KernelUserSpace: 2, sandbox.KernelMachine: 3}

// Strongest names the backend that Auto comes to, if one of those that were probed can be used.
func Strongest(probed []Probed) (name string, ok bool) {
	i, ok := strongest(probed)
	if ok {
		name = probed[i].Backend
	}
	return name, ok
}

// strongest returns the index of the usable backend with the strongest isolation; of equals, the first.
func strongest(probed []Probed) (int, bool) {
	return strongestOf(probed, func(p *Probed) bool { return p.Usable() })
}

func strongestOf(probed []Probed, fits func(*Probed) bool) (int, bool) {
	best, rank := 0, 0
	for i := range probed {
		if r := kernelRank[probed[i].Posture.Kernel]; r > rank && fits(&probed[i]) {
			best, rank = i, r
		}
	}
	return best, rank > 0
}

// noneUsable says why Auto can choose none. Where the strongest backend that works lacks only what a run may waive, the fix is to waive it.
func noneUsable(probed []Probed) error {
	var reasons []string
	for _, p := range probed {
		reason := cmp.Or(p.Err, p.Refusal).Error()
		if !strings.HasPrefix(reason, p.Backend+": ") {
			reason = p.Backend + ": " + reason
		}
		reasons = append(reasons, reason)
	}
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "choose a backend", Msg: "none works on this host: " + strings.Join(reasons, "; "),
		Fix: "run glovebox doctor: it says what this host can enforce, and the fix for the rest"}
	if i, ok := strongestOf(probed, func(p *Probed) bool { return p.Err == nil && len(sandbox.UnenforcedOf(p.Refusal)) > 0 }); ok {
		r := probed[i].Refusal
		e.Unenforced, e.Fix, e.Hint = sandbox.UnenforcedOf(r), sandbox.FixOf(r), sandbox.HintOf(r)
	}
	return e
}

// unknownBackend says which names there are, and which is likely meant, or why that one is not among them.
func unknownBackend(name string, backends []sandbox.Backend) error {
	names := append([]string{Auto}, backendNames(backends)...)
	err := sandbox.Invalidf("backend", "%.40q is not one of %s", name, strings.Join(names, ", "))
	if near := nearest.Name(strings.ToLower(name), names); near != "" {
		err.Fix = "did you mean " + near + "?"
	} else if runtime.GOOS != "linux" && (name == "native" || name == "gvisor") {
		err.Fix = name + " is made of Linux itself: use docker or podman here, whose virtual machine has one"
	}
	return err
}

func backendNames(backends []sandbox.Backend) []string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.Name()
	}
	return names
}
