package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Probed is what one backend reports about this host.
type Probed struct {
	Backend  string
	Posture  sandbox.Posture // not valid if Err is set
	Features []sandbox.Feature
	Err      error // why the backend cannot work here

	Refusal error               // why it would refuse a default request; nil if it would not, or Err is set
	Without []sandbox.LimitName // limits that are not enforced for such a request, as the operator waived them
}

// Usable reports whether this backend can serve a default request here.
func (p Probed) Usable() bool { return p.Err == nil && p.Refusal == nil }

// isSlow reports whether this backend did not answer in time, as on a busy host. It may work.
func (p Probed) isSlow() bool { return errors.Is(p.Err, context.DeadlineExceeded) }

// Probe probes all backends at once. The answers are in the order of Config.
func (e *Engine) Probe(ctx context.Context) []Probed { return e.probeAll(ctx, e.config.Backends) }

func (e *Engine) probeAll(ctx context.Context, backends []sandbox.Backend) []Probed {
	out := make([]Probed, len(backends))
	var all sync.WaitGroup
	for i, b := range backends {
		all.Go(func() { out[i] = e.probe(ctx, b) })
	}
	all.Wait()
	return out
}

// ProbeDefault probes the default backend. For Auto, that is its choice, or an error with the reasons if no backend is
// usable.
func (e *Engine) ProbeDefault(ctx context.Context) Probed {
	b, err := e.backend(ctx, "", nil)
	if err != nil {
		return Probed{Backend: e.defaultName(), Err: err}
	}
	return e.probe(ctx, b)
}

// ProbeOf probes the backend of a name, if runs may name it.
func (e *Engine) ProbeOf(ctx context.Context, name string) Probed {
	b, err := e.backend(ctx, name, nil)
	if err != nil {
		return Probed{Backend: name, Err: err}
	}
	return e.probe(ctx, b)
}

// probeTimeout limits the probe of one backend, as a container engine or the kernel may hang.
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

// preflight predicts a default request, with the operator's waivers, on a backend that works here.
func (e *Engine) preflight(b sandbox.Backend, posture sandbox.Posture,
	accepted []string) (without []sandbox.LimitName, refusal error) {
	spec, err := e.baseRules().Box(sandbox.Spec{AllowUnenforced: accepted})
	if err != nil {
		return nil, err
	}
	f, ok := b.(sandbox.Preflighter)
	if !ok {
		if !posture.Ready {
			refusal = &sandbox.Error{Kind: sandbox.Unsupported, Op: b.Name(),
				Msg: "cannot enforce the default policy on this host"}
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

// Capabilities is what the engine offers to requests, besides the limits of LimitsOf.
type Capabilities struct {
	Default   string // the default backend; Auto is resolved if possible
	Backends  []Probed
	Languages []sandbox.Language
	// highest NetworkPolicy.MaxConnections; 0 where sandboxes have no network
	MaxConnections int
	Slots          int
	Queue          int
}

// Capabilities probes the backends and returns what the engine offers.
func (e *Engine) Capabilities(ctx context.Context) Capabilities {
	offered := slices.DeleteFunc(e.Probe(ctx), func(p Probed) bool { return e.allowed(ctx, p.Backend, nil) != nil })
	c := Capabilities{
		Default:   e.defaultName(),
		Backends:  offered,
		Languages: e.config.Languages,
		Slots:     e.config.Slots,
		Queue:     e.config.Queue,
	}
	if e.config.Gate != nil {
		c.MaxConnections = e.config.Gate.MaxConnections()
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

// autoChoice caches Auto's choice. What a host can enforce does not change under a running server, unless it lacked
// memory, and a probe costs more than a run.
type autoChoice struct {
	mu     sync.Mutex                 // guards all below; held while probing, so that concurrent runs probe once
	chosen map[string]sandbox.Backend // by the run's waivers; "" is none
	probed []Probed                   // of a failed choice; the operator may fix that at any time,
	at     time.Time                  // so it is cached for autoFresh only, to spare each refused request a probe
	again  time.Time                  // when to choose again; zero is never
}

const (
	autoFresh = 5 * time.Second
	autoRetry = time.Minute
)

// record records a choice. If a stronger backend failed, perhaps for lack of memory or processes, Auto chooses again
// after autoRetry. The caller holds mu.
func (a *autoChoice) record(key string, b sandbox.Backend, probed []Probed, chosen int) {
	for _, p := range probed {
		if p.Err != nil && sandbox.KindOf(p.Err) != sandbox.Unsupported &&
			kernelRank[p.Posture.Kernel] > kernelRank[probed[chosen].Posture.Kernel] {
			a.again = time.Now().Add(autoRetry)
		}
	}
	if a.chosen == nil {
		a.chosen = map[string]sandbox.Backend{}
	}
	a.chosen[key] = b
}

// chooseAgain probes all, if it is time to, while runs use the last choice. The caller holds auto.mu.
func (e *Engine) chooseAgain() {
	if e.auto.again.IsZero() || time.Now().Before(e.auto.again) {
		return
	}
	e.auto.again = time.Time{}
	e.goAside(func() {
		backends := e.choices()
		probed := e.probeAll(e.stop, backends)
		i, ok := strongest(probed)
		e.auto.mu.Lock()
		defer e.auto.mu.Unlock()
		if !ok || probed[i].isSlow() {
			e.auto.again = time.Now().Add(autoRetry)
			return
		}
		e.auto.chosen = nil // also those with waivers
		e.auto.record("", backends[i], probed, i)
	})
}

// choices returns the backends from which Auto chooses: all, or those that runs may name if Auto is not one of them.
func (e *Engine) choices() []sandbox.Backend {
	if e.config.Allowed == nil || slices.Contains(e.config.Allowed, Auto) {
		return e.config.Backends
	}
	return slices.DeleteFunc(slices.Clone(e.config.Backends), func(b sandbox.Backend) bool {
		return !slices.Contains(e.config.Allowed, b.Name())
	})
}

// backend finds the backend that a run names. The run's waivers matter only if Auto could choose none without them.
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
		return nil, e.notOffered(name) // it may choose one that is not offered
	}
	// Unknown names were refused before, so the keys are few.
	accepted = slices.Compact(slices.Sorted(slices.Values(accepted)))
	key := strings.Join(accepted, ",")
	e.auto.mu.Lock()
	defer e.auto.mu.Unlock()
	e.chooseAgain()
	for _, key := range []string{"", key} {
		if b := e.auto.chosen[key]; b != nil {
			return b, nil
		}
	}
	backends := e.choices()
	if time.Since(e.auto.at) > autoFresh {
		probed := e.probeAll(ctx, backends)
		// a backend that did not answer in time may be stronger, and the choice is final
		if err := ctx.Err(); err != nil {
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
				p.Without, p.Refusal = e.preflight(backends[i], p.Posture, accepted)
			}
		}
		i, ok = strongest(probed)
	}
	if !ok {
		return nil, noneUsable(probed)
	}
	if probed[i].isSlow() {
		return backends[i], nil // not recorded: a later probe may find that it does not work
	}
	e.auto.record(key, backends[i], probed, i)
	return backends[i], nil
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
	if err.Fix = "leave it out"; len(e.config.Allowed) > 0 {
		err.Fix += ", or use one of " + strings.Join(e.config.Allowed, ", ")
	}
	return err
}

var kernelRank = map[sandbox.Kernel]int{sandbox.KernelShared: 1, sandbox.KernelUserSpace: 2, sandbox.KernelMachine: 3}

// Strongest names the backend that Auto chooses from those probed, if there is one.
func Strongest(probed []Probed) (name string, ok bool) {
	i, ok := strongest(probed)
	if ok {
		name = probed[i].Backend
	}
	return name, ok
}

// Choice is Strongest among the backends from which Auto chooses in this engine.
func (e *Engine) Choice(probed []Probed) (name string, ok bool) {
	choices := e.choices()
	return Strongest(slices.DeleteFunc(slices.Clone(probed), func(p Probed) bool {
		return !slices.ContainsFunc(choices, func(b sandbox.Backend) bool { return b.Name() == p.Backend })
	}))
}

// strongest returns the index of the backend with the strongest isolation of those that are usable or slow; of equals,
// one that is usable, and then the first.
func strongest(probed []Probed) (int, bool) {
	usable, ok := strongestOf(probed, (*Probed).Usable)
	slow, is := strongestOf(probed, (*Probed).isSlow)
	if is && (!ok || kernelRank[probed[slow].Posture.Kernel] > kernelRank[probed[usable].Posture.Kernel]) {
		return slow, true
	}
	return usable, ok
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

// noneUsable returns why Auto can choose none. If the strongest working backend lacks only limits, the fix is to waive
// them.
func noneUsable(probed []Probed) error {
	var reasons []string
	for _, p := range probed {
		reason := cmp.Or(p.Err, p.Refusal).Error()
		if !strings.HasPrefix(reason, p.Backend+": ") {
			reason = p.Backend + ": " + reason
		}
		reasons = append(reasons, reason)
	}
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "choose a backend",
		Msg:   "none works on this host: " + strings.Join(reasons, "; "),
		Fixes: []sandbox.Hint{sandbox.FixCheckHost}}
	if i, ok := strongestOf(probed,
		func(p *Probed) bool { return p.Err == nil && len(sandbox.UnenforcedOf(p.Refusal)) > 0 }); ok {
		r := probed[i].Refusal
		e.Unenforced, e.Fix, e.Fixes = sandbox.UnenforcedOf(r), sandbox.FixOf(r), nil
	}
	return e
}

// unknownBackend lists the known names, and suggests one or says why the name is not among them.
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
