package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/answer"
	"github.com/glovebox-dev/glovebox/internal/httpd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Capabilities is the answer to GET /v1/capabilities: what runs may ask of this server.
type Capabilities struct {
	Version        string                `json:"version" doc:"Of Glovebox."`
	DefaultBackend string                `json:"default_backend" doc:"What isolates a run that names no backend."`
	Backends       []BackendShown        `json:"backends"`
	Languages      []string              `json:"languages"`
	Defaults       answer.PolicyLimits   `json:"defaults" doc:"Limits of a run that names none."`
	Max            answer.PolicyLimits   `json:"max" doc:"The most that a run may ask for; null where this server sets no maximum."`
	Network        []sandbox.NetworkMode `json:"network" doc:"The network modes that are served."`
	Slots          int                   `json:"slots" doc:"Executions at the same time."`
	Queue          int                   `json:"queue" doc:"Runs that may wait for a slot."`
	MaxBodyBytes   int64                 `json:"max_body_bytes"`
}

// BackendShown is one backend and which of its isolation layers are enforced on this host.
type BackendShown struct {
	Name   string         `json:"name"`
	Usable bool           `json:"usable" doc:"Whether a default request can be served on it here."`
	Error  string         `json:"error,omitempty" doc:"Why they cannot."`
	Hint   string         `json:"hint,omitempty" doc:"What would help."`
	Kernel sandbox.Kernel `json:"kernel,omitempty" doc:"Whose kernel serves the code." enum:"shared,user-space,machine"`
	Layers []sandbox.Wall `json:"isolation" doc:"Its isolation layers, with the state of each."`

	Features []sandbox.Feature `json:"features" doc:"What it can do, and what becomes of a request for what it cannot."`
}

// LanguageShown is one language.
type LanguageShown struct {
	Name       string   `json:"name" doc:"The word for it in requests."`
	Title      string   `json:"title"`
	Aliases    []string `json:"aliases" doc:"Other words for it."`
	Extensions []string `json:"extensions" doc:"Of its files' names."`
	FileName   string   `json:"file_name" doc:"What code is called that has no name of its own."`

	Version         *string       `json:"version" doc:"Of its interpreter on the default backend; null where that is not known."`
	StandardLibrary bool          `json:"standard_library" doc:"Whether its standard library can be imported too; modules does not list that."`
	Modules         []ModuleShown `json:"modules" doc:"What code can import beside the standard library; of a shell, which common commands there are."`
	Error           string        `json:"error,omitempty" doc:"Why version and modules are not known."`
	Hint            string        `json:"hint,omitempty" doc:"What would help."`
}

// ModuleShown is something that code can import.
type ModuleShown struct {
	Name    string  `json:"name" doc:"As an import statement says it."`
	Version *string `json:"version" doc:"null where it has none."`
}

// Languages is the answer to GET /v1/languages.
type Languages struct {
	Languages []LanguageShown `json:"languages"`
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}

// Probing costs more than a run, and balancers ask often, so what it found is kept for probeFresh.
const (
	probeFresh   = 30 * time.Second
	probeTimeout = 30 * time.Second
)

// probe keeps what was found last.
type probe[T any] struct {
	mu   sync.Mutex // guards all below; held while probing, so that many who ask probe once
	at   time.Time
	last T
}

func (p *probe[T]) get(ctx context.Context, ask func(context.Context) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) > probeFresh {
		// One client that goes away must not spoil the answer of all others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		p.last, p.at = ask(ctx), time.Now()
	}
	return p.last
}

func (a *api) capabilities(w *httpd.Response, r *http.Request) error {
	c := a.probes.get(r.Context(), a.Engine().Capabilities)
	out := Capabilities{
		Version:        a.Version(),
		DefaultBackend: c.Default,
		Backends:       make([]BackendShown, len(c.Backends)),
		Languages:      make([]string, len(c.Languages)),
		Defaults:       answer.NewPolicyLimits(c.Defaults),
		Max:            answer.NewPolicyLimits(c.Max),
		Network:        []sandbox.NetworkMode{sandbox.NetworkNone},
		Slots:          c.Slots,
		Queue:          c.Queue,
		MaxBodyBytes:   a.MaxBody(),
	}
	for i, b := range c.Backends {
		shown := BackendShown{Name: b.Backend, Usable: b.Usable(), Kernel: b.Posture.Kernel, Layers: answer.List(b.Posture.Walls), Features: answer.List(b.Features)}
		if err := cmp.Or(b.Err, b.Refusal); err != nil {
			p := answer.NewPublicProblem(err, w.ID)
			shown.Error, shown.Hint = p.Detail, p.Hint
		}
		out.Backends[i] = shown
	}
	for i, l := range c.Languages {
		out.Languages[i] = l.Name
	}
	return a.WriteJSON(w, out)
}

func (a *api) languages(w *httpd.Response, r *http.Request) error {
	out := Languages{Languages: []LanguageShown{}}
	for _, l := range a.Engine().Stock(r.Context()) {
		shown := LanguageShown{
			Name: l.Name, Title: l.Title, Aliases: answer.List(l.Aliases), Extensions: answer.List(l.Extensions), FileName: l.FileName,
			Version: orNull(l.Inventory.Version), StandardLibrary: l.Inventory.StandardLibrary, Modules: []ModuleShown{},
		}
		for _, m := range l.Inventory.Modules {
			shown.Modules = append(shown.Modules, ModuleShown{m.Name, orNull(m.Version)})
		}
		if l.Err != nil {
			p := answer.NewPublicProblem(l.Err, w.ID)
			shown.Error, shown.Hint = p.Detail, p.Hint
		}
		out.Languages = append(out.Languages, shown)
	}
	return a.WriteJSON(w, out)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// healthz says that this process answers.
func (a *api) healthz(w *httpd.Response, _ *http.Request) error { return a.WriteJSON(w, Health{"ok"}) }

// readyz says that runs are admitted and a default request is not refused by the default backend.
func (a *api) readyz(w *httpd.Response, r *http.Request) error {
	if a.Draining() {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "this server is shutting down"}
	}
	switch b := a.readiness.get(r.Context(), a.Engine().ProbeDefault); {
	case b.Err != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the default backend does not work on this host", Fix: "glovebox doctor says what would help"}
	case b.Refusal != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "a default request is refused", Err: b.Refusal}
	}
	return a.WriteJSON(w, Health{"ready"})
}
