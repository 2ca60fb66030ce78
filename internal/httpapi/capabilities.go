package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// A probe costs more than a run, and load balancers ask often, so its result is cached for probeFresh.
const (
	probeFresh   = 30 * time.Second
	probeTimeout = 30 * time.Second
)

// probe caches the result of the last probe.
type probe[T any] struct {
	mu   sync.Mutex // guards all below; held while probing, so that concurrent callers probe once
	at   time.Time
	last T
}

func (p *probe[T]) get(ctx context.Context, measure func(context.Context) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) > probeFresh {
		// A client that disconnects must not fail the probe of the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		p.last, p.at = measure(ctx), time.Now()
	}
	return p.last
}

func (a *apiV1) capabilities(w *httpd.Response, r *http.Request) error {
	c := a.probes.get(r.Context(), a.Engine().Capabilities)
	defaults, most, ceiling := a.Engine().LimitsOf(w.Key)
	out := api.Capabilities{
		Version:               a.Version(),
		DefaultBackend:        c.Default,
		Backends:              make([]api.Backend, len(c.Backends)),
		Languages:             make([]string, len(c.Languages)),
		Defaults:              answer.NewLimits(defaults),
		Max:                   answer.NewLimits(most),
		Network:               []sandbox.NetworkMode{sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull},
		Slots:                 c.Slots,
		Queue:                 c.Queue,
		MaxBodyBytes:          a.MaxBody(),
		NetworkMaxConnections: c.MaxConnections,
		MaxFileBytes:          a.MaxFile(),
		Operator:              w.Operator,
	}
	if ceiling != nil {
		out.Network = out.Network[:slices.Index(out.Network, ceiling.Mode)+1]
		out.NetworkAllow = answer.List(ceiling.Allow)
	}
	for i, b := range c.Backends {
		backend := api.Backend{Name: b.Backend, Usable: b.Usable(), Kernel: b.Posture.Kernel,
			Layers: answer.List(b.Posture.Walls), Features: answer.List(b.Features)}
		if err := cmp.Or(b.Err, b.Refusal); err != nil {
			p := answer.NewPublicProblem(err, w.ID)
			backend.Error, backend.Hint = p.Detail, p.Hint
		}
		out.Backends[i] = backend
	}
	for i, l := range c.Languages {
		out.Languages[i] = l.Name
	}
	return a.WriteJSON(w, out)
}

func (a *apiV1) languages(w *httpd.Response, r *http.Request) error {
	out := api.Languages{Languages: []api.Language{}}
	surveys, err := a.Engine().Surveys(r.Context(), w.Key, r.URL.Query().Get("image"))
	if err != nil {
		return err
	}
	for _, l := range surveys {
		language := answer.LanguageOf(&l.Language, &l.Survey)
		if l.Err != nil {
			p := answer.NewPublicProblem(l.Err, w.ID)
			language.Error, language.Hint = p.Detail, p.Hint
		}
		out.Languages = append(out.Languages, language)
	}
	return a.WriteJSON(w, out)
}

// healthz reports that this process answers.
func (a *apiV1) healthz(w *httpd.Response, _ *http.Request) error {
	return a.WriteJSON(w, api.Health{Status: "ok"})
}

// fullTooLong is how long a server may refuse every run because of others before it is not ready. A short burst should
// not move load to other servers.
const fullTooLong = 10 * time.Second

// readyz reports whether runs are admitted and the default backend serves a default request.
func (a *apiV1) readyz(w *httpd.Response, r *http.Request) error {
	if a.Draining() {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "this server is shutting down"}
	}
	if full := a.Engine().Stats().FullFor; full >= fullTooLong {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "all slots and the queue have been full for " +
			full.Round(time.Second).String()}
	}
	switch b := a.readiness.get(r.Context(), a.Engine().ProbeDefault); {
	case b.Err != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the default backend does not work on this host",
			Fixes: []sandbox.Hint{sandbox.FixCheckHost}}
	case b.Refusal != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "a default request is refused", Err: b.Refusal}
	}
	return a.WriteJSON(w, api.Health{Status: "ready"})
}
