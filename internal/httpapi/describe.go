package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Capabilities is the answer to GET /v1/capabilities: what runs may ask of this server.
type Capabilities struct {
	Version        string                `json:"version" doc:"Of Glovebox."`
	DefaultBackend string                `json:"default_backend" doc:"Whose walls a run gets that names none."`
	Backends       []BackendShown        `json:"backends"`
	Languages      []string              `json:"languages"`
	Defaults       PolicyLimits          `json:"defaults" doc:"Limits of a run that names none."`
	Max            PolicyLimits          `json:"max" doc:"The most that a run may ask for; null where this server sets no maximum."`
	Network        []sandbox.NetworkMode `json:"network" doc:"The network modes that are served."`
	Slots          int                   `json:"slots" doc:"Executions at the same time."`
	Queue          int                   `json:"queue" doc:"Runs that may wait for a slot."`
	MaxBodyBytes   int64                 `json:"max_body_bytes"`
}

// BackendShown is one backend and which of its walls stand on this host.
type BackendShown struct {
	Name   string         `json:"name"`
	Usable bool           `json:"usable" doc:"Whether runs that ask for nothing can be made on it here."`
	Error  string         `json:"error,omitempty" doc:"Why they cannot."`
	Fix    string         `json:"fix,omitempty"`
	Kernel sandbox.Kernel `json:"kernel,omitempty" doc:"Whose kernel serves the code." enum:"shared,user-space,machine"`
	Walls  []sandbox.Wall `json:"walls"`

	Features []sandbox.Feature `json:"features" doc:"What it can do, and what becomes of a request for what it cannot."`
}

// LanguageShown is one language.
type LanguageShown struct {
	Name       string   `json:"name" doc:"The word for it in requests."`
	Title      string   `json:"title"`
	Aliases    []string `json:"aliases" doc:"Other words for it."`
	Extensions []string `json:"extensions" doc:"Of its files' names."`
	FileName   string   `json:"file_name" doc:"What code is called that has no name of its own."`
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

func (s *Server) capabilities(w *response, r *http.Request) error {
	c := s.probes.get(r.Context(), s.config.Engine.Capabilities)
	out := Capabilities{
		Version:        s.config.Version,
		DefaultBackend: c.Default,
		Backends:       make([]BackendShown, len(c.Backends)),
		Languages:      make([]string, len(c.Languages)),
		Defaults:       newPolicyLimits(c.Defaults),
		Max:            newPolicyLimits(c.Max),
		Network:        []sandbox.NetworkMode{sandbox.NetworkNone},
		Slots:          c.Slots,
		Queue:          c.Queue,
		MaxBodyBytes:   s.config.MaxBody,
	}
	for i, b := range c.Backends {
		shown := BackendShown{Name: b.Backend, Usable: b.Usable(), Kernel: b.Posture.Kernel, Walls: list(b.Posture.Walls), Features: list(b.Features)}
		if err := cmp.Or(b.Err, b.Refusal); err != nil {
			p := problemOf(err, w.id)
			shown.Error, shown.Fix = p.Detail, p.Fix
		}
		out.Backends[i] = shown
	}
	for i, l := range c.Languages {
		out.Languages[i] = l.Name
	}
	return s.writeJSON(w, out)
}

func (s *Server) languages(w *response, _ *http.Request) error {
	out := Languages{Languages: []LanguageShown{}}
	for _, l := range s.config.Engine.Languages() {
		out.Languages = append(out.Languages, LanguageShown{
			Name: l.Name, Title: l.Title, Aliases: list(l.Aliases), Extensions: list(l.Extensions), FileName: l.FileName,
		})
	}
	return s.writeJSON(w, out)
}

// healthz says that this process answers.
func (s *Server) healthz(w *response, _ *http.Request) error { return s.writeJSON(w, Health{"ok"}) }

// readyz says that runs are admitted and one that asks for nothing is not refused by the default backend.
func (s *Server) readyz(w *response, r *http.Request) error {
	if s.draining.Load() || s.config.Engine.Stats().Draining {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "this server is shutting down"}
	}
	switch b := s.readiness.get(r.Context(), s.config.Engine.ProbeDefault); {
	case b.Err != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the default backend does not work on this host", Fix: "glovebox doctor says what would help"}
	case b.Refusal != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "a request that asks for nothing is refused", Err: b.Refusal}
	}
	return s.writeJSON(w, Health{"ready"})
}
