package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Capabilities is the answer to GET /v1/capabilities: what this server offers.
type Capabilities struct {
	Version        string                `json:"version" doc:"Of Fumehood."`
	DefaultBackend string                `json:"default_backend" doc:"Backend of a run that names none."`
	Backends       []BackendShown        `json:"backends"`
	Languages      []string              `json:"languages"`
	Defaults       api.PolicyLimits      `json:"defaults" doc:"Limits of a run that names none."`
	Max            api.PolicyLimits      `json:"max" doc:"Highest limits that a run may name; null if this server sets no maximum."`
	Network        []sandbox.NetworkMode `json:"network" doc:"Supported network modes."`
	Slots          int                   `json:"slots" doc:"Concurrent executions."`
	Queue          int                   `json:"queue" doc:"Runs that may wait for a slot."`
	MaxBodyBytes   int64                 `json:"max_body_bytes"`
	MaxFileBytes   int64                 `json:"max_file_bytes" doc:"Of one file that is sent to a living sandbox."`
}

// BackendShown is one backend and the state of its isolation layers on this host.
type BackendShown struct {
	Name   string         `json:"name"`
	Usable bool           `json:"usable" doc:"Whether this host can serve a default request on it."`
	Error  string         `json:"error,omitempty" doc:"Why not."`
	Hint   string         `json:"hint,omitempty" doc:"What would help."`
	Kernel sandbox.Kernel `json:"kernel,omitempty" doc:"The kernel that serves the code." enum:"shared,user-space,machine"`
	Layers []sandbox.Wall `json:"isolation" doc:"Its isolation layers and their states."`

	Features []sandbox.Feature `json:"features" doc:"Its features, and what happens to a request for a missing one."`
}

// LanguageShown is one language.
type LanguageShown struct {
	Name       string   `json:"name" doc:"Its name in requests."`
	Title      string   `json:"title"`
	Aliases    []string `json:"aliases" doc:"Other names for it."`
	Extensions []string `json:"extensions" doc:"File name extensions."`
	FileName   string   `json:"file_name" doc:"Default name of the code's file."`

	Version         *string       `json:"version" doc:"Version of its interpreter on the default backend; null if unknown."`
	StandardLibrary bool          `json:"standard_library" doc:"Whether its standard library is installed; modules does not list that."`
	Modules         []ModuleShown `json:"modules" doc:"What code can import besides the standard library; of a shell, the common commands."`
	Error           string        `json:"error,omitempty" doc:"Why version and modules are unknown."`
	Hint            string        `json:"hint,omitempty" doc:"What would help."`
}

// ModuleShown is a module that code can import.
type ModuleShown struct {
	Name    string  `json:"name" doc:"As in an import statement."`
	Version *string `json:"version" doc:"null if unknown."`
}

// Languages is the answer to GET /v1/languages.
type Languages struct {
	Languages []LanguageShown `json:"languages"`
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}

// A probe costs more than a run, and load balancers ask often, so its result is cached for probeFresh.
const (
	probeFresh   = 30 * time.Second
	probeTimeout = 30 * time.Second
)

// probe caches the last probe.
type probe[T any] struct {
	mu   sync.Mutex // guards all below; held while probing, so that concurrent callers probe once
	at   time.Time
	last T
}

func (p *probe[T]) get(ctx context.Context, ask func(context.Context) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) > probeFresh {
		// A client that disconnects must not fail the probe of the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		p.last, p.at = ask(ctx), time.Now()
	}
	return p.last
}

func (a *apiV1) capabilities(w *httpd.Response, r *http.Request) error {
	c := a.probes.get(r.Context(), a.Engine().Capabilities)
	out := Capabilities{
		Version:        a.Version(),
		DefaultBackend: c.Default,
		Backends:       make([]BackendShown, len(c.Backends)),
		Languages:      make([]string, len(c.Languages)),
		Defaults:       answer.NewPolicyLimits(c.Defaults),
		Max:            answer.NewPolicyLimits(c.Max),
		Network:        []sandbox.NetworkMode{sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull},
		Slots:          c.Slots,
		Queue:          c.Queue,
		MaxBodyBytes:   a.MaxBody(),
		MaxFileBytes:   a.MaxFile(),
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

func (a *apiV1) languages(w *httpd.Response, r *http.Request) error {
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

// healthz reports that this process answers.
func (a *apiV1) healthz(w *httpd.Response, _ *http.Request) error {
	return a.WriteJSON(w, Health{"ok"})
}

// readyz reports whether runs are admitted and the default backend serves a default request.
func (a *apiV1) readyz(w *httpd.Response, r *http.Request) error {
	if a.Draining() {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "this server is shutting down"}
	}
	switch b := a.readiness.get(r.Context(), a.Engine().ProbeDefault); {
	case b.Err != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the default backend does not work on this host", Fix: "fumehood doctor says what would help"}
	case b.Refusal != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "a default request is refused", Err: b.Refusal}
	}
	return a.WriteJSON(w, Health{"ready"})
}
