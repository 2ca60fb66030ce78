package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// CreateRequest is the body of POST /v1/sandboxes.
type CreateRequest struct {
	Name            string            `json:"name" doc:"Unique among the living sandboxes of the caller. If there is one of this name, that is the answer. 1 to 63 of a-z, 0-9 and ._- with a letter or digit at both ends." example:"work"`
	Lifetime        LifetimeIn        `json:"lifetime" doc:"When the sandbox ends by itself."`
	Env             map[string]string `json:"env" doc:"Environment variables of all its runs. Nothing is inherited from the server." max:"1024"`
	Limits          api.Limits        `json:"limits" doc:"A limit that is named here is enforced, or the request is refused. timeout_s is the default of its runs."`
	Network         NetworkIn         `json:"network" doc:"What the sandbox may reach."`
	Metadata        map[string]string `json:"metadata" doc:"Any strings of yours, to list by: names of 1 to 128 bytes, values of at most 1024." max:"64"`
	Backend         string            `json:"backend" doc:"What isolates the sandbox: a name of GET /v1/capabilities, or auto for the strongest here. Absent is the server's default." example:"native"`
	Image           string            `json:"image" doc:"On docker and podman, the image that is the root file system. The server fetches none: it must be there." example:"python:3.12-slim"`
	AllowUnenforced []string          `json:"allow_unenforced" doc:"Names of limits, or commands, that need not be enforced where this host cannot do it." max:"64"`
	Include         []string          `json:"include" doc:"Sections of the answer that are to be there also where they have nothing to say." max:"16" enum:"compile,findings,output,skipped_files,sandbox"`
}

// LifetimeIn says when a living sandbox ends by itself.
type LifetimeIn struct {
	IdleS   *float64 `json:"idle_s" doc:"Seconds without a run or another call; 1800 if absent when the sandbox is made." over:"0" example:"3600"`
	MaxAgeS *float64 `json:"max_age_s" doc:"Seconds since it was made; 86400 if absent then." over:"0" example:"86400"`
}

// PatchRequest is the body of PATCH /v1/sandboxes/{id}. What is absent stays as it is.
type PatchRequest struct {
	Lifetime LifetimeIn        `json:"lifetime" doc:"When the sandbox ends by itself."`
	Metadata map[string]string `json:"metadata" doc:"All metadata anew." max:"64"`
	Network  *NetworkIn        `json:"network" doc:"All rules of the network anew; only where it was made with one. Open connections that they refuse are reset."`
}

// LivingSandbox is a sandbox that goes on after its runs.
type LivingSandbox struct {
	ID         sandbox.ID        `json:"id"`
	Name       *string           `json:"name" doc:"null if it has none."`
	State      string            `json:"state" doc:"running while a run is in progress." enum:"running,idle"`
	Backend    string            `json:"backend" doc:"What isolates it."`
	CreatedAt  string            `json:"created_at" doc:"RFC 3339."`
	UsedAt     string            `json:"used_at" doc:"When the last run ended, or another call came."`
	IdleEndsAt string            `json:"idle_ends_at,omitempty" doc:"When it ends unless it is used; absent while something runs."`
	AgeEndsAt  string            `json:"age_ends_at" doc:"When it ends in any case."`
	Running    int               `json:"running" doc:"Runs in progress."`
	Contexts   []ContextShown    `json:"contexts"`
	Metadata   map[string]string `json:"metadata"`
	Lifetime   LifetimeShown     `json:"lifetime"`
	Limits     api.PolicyLimits  `json:"limits" doc:"null: not enforced."`
	Network    api.Network       `json:"network"`
	Sandbox    *api.Policy       `json:"sandbox,omitempty" doc:"The policy as asked and as enforced: there where the two differ, or include names it."`
}

// LifetimeShown says when a living sandbox ends by itself.
type LifetimeShown struct {
	IdleS   float64 `json:"idle_s" doc:"Seconds without a run or another call."`
	MaxAgeS float64 `json:"max_age_s" doc:"Seconds since it was made."`
}

// SandboxList is the answer to GET /v1/sandboxes.
type SandboxList struct {
	Sandboxes []LivingSandbox `json:"sandboxes" doc:"The oldest first."`
	More      bool            `json:"more" doc:"Whether there are others after these: ask again with after."`
}

// SandboxUsage is what a living sandbox uses. What this host cannot measure is null.
type SandboxUsage struct {
	WallMS          float64  `json:"wall_ms" doc:"Milliseconds since it was made."`
	CPUMS           *float64 `json:"cpu_ms" doc:"Milliseconds of CPU, user and system, of all its processes so far."`
	MemoryBytes     *int64   `json:"memory_bytes" doc:"Memory now, with the files in the workspace."`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes"`
	Pids            *int64   `json:"pids" doc:"Processes and threads now."`
	OOMKills        *int64   `json:"oom_kills" doc:"Processes that the kernel killed for lack of memory."`
	PidsRefused     *int64   `json:"pids_refused" doc:"Processes and threads that the kernel refused at the limit."`
}

// living handles a request to one living sandbox.
type living func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error

// in finds the sandbox of a request.
func (a *apiV1) in(h living) func(*httpd.Response, *http.Request) error {
	return func(w *httpd.Response, r *http.Request) error {
		s, err := a.Engine().Sandbox(r.Context(), w.Key, r.PathValue("id"))
		if err == nil {
			err = h(w, r, s)
		}
		return gaveUp(r, err)
	}
}

// gaveUp keeps the error of a client that has left out of the server's log.
func gaveUp(r *http.Request, err error) error {
	if err == nil || r.Context().Err() == nil || sandbox.KindOf(err) != sandbox.Internal {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the client has left"}
}

// done answers with nothing.
func done(w *httpd.Response, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// createSandbox is POST /v1/sandboxes.
func (a *apiV1) createSandbox(w *httpd.Response, r *http.Request) error {
	var req CreateRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	ask, err := req.living()
	if err != nil {
		return err
	}
	ask.Owner = w.Key
	s, made, err := a.Engine().Create(r.Context(), ask)
	if err != nil {
		return gaveUp(r, err)
	}
	shown := showSandbox(s, asksForSandbox(req.Include))
	if made {
		return a.WriteStatus(w, http.StatusCreated, shown)
	}
	return a.WriteJSON(w, shown)
}

func (r *CreateRequest) living() (l engine.Living, err error) {
	if err = checkInclude(r.Include); err != nil {
		return l, err
	}
	if l.Spec, err = specIn(r.Limits, r.Network, r.Image, r.AllowUnenforced); err != nil {
		return l, err
	}
	if l.Spec.Env, err = envIn(r.Env); err != nil {
		return l, err
	}
	idle, age, err := r.Lifetime.durations()
	if err != nil {
		return l, err
	}
	if idle != nil {
		l.Spec.Lifetime.Idle = *idle
	}
	if age != nil {
		l.Spec.Lifetime.MaxAge = *age
	}
	l.Name, l.Backend, l.Spec.Labels = r.Name, r.Backend, r.Metadata
	return l, nil
}

// durations returns nil for what is absent.
func (l *LifetimeIn) durations() (idle, age *time.Duration, err error) {
	for _, f := range []struct {
		name string
		in   *float64
		out  **time.Duration
	}{{"idle_s", l.IdleS, &idle}, {"max_age_s", l.MaxAgeS, &age}} {
		if f.in == nil {
			continue
		}
		if *f.in < 1 || *f.in > engine.MaxLifetime.Seconds() {
			return nil, nil, sandbox.Invalidf("lifetime."+f.name, "must be from 1 to %.0f", engine.MaxLifetime.Seconds())
		}
		d := time.Duration(*f.in * float64(time.Second))
		*f.out = &d
	}
	return idle, age, nil
}

func asksForSandbox(include []string) bool {
	for _, name := range include {
		if name == "sandbox" {
			return true
		}
	}
	return false
}

// maxSandboxPage is the most sandboxes in one answer.
const maxSandboxPage = 1000

// listSandboxes is GET /v1/sandboxes.
func (a *apiV1) listSandboxes(w *httpd.Response, r *http.Request) error {
	q := query{r: r}
	labels := map[string]string{}
	for _, text := range q.all("label") {
		name, value, found := strings.Cut(text, ":")
		if !found {
			return sandbox.Invalidf("label", "%.40q is not NAME:VALUE", text)
		}
		labels[name] = value
	}
	limit := q.number("limit", 0, 1, maxSandboxPage)
	if q.err != nil {
		return q.err
	}
	list, more, err := a.Engine().Sandboxes(w.Key, labels, sandbox.ID(q.text("after")), limit)
	if err != nil {
		return err
	}
	out := SandboxList{Sandboxes: make([]LivingSandbox, len(list)), More: more}
	for i, s := range list {
		out.Sandboxes[i] = showSandbox(s, false)
	}
	return a.WriteJSON(w, out)
}

func (a *apiV1) getSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	include := (&query{r: r}).all("include")
	if err := checkInclude(include); err != nil {
		return err
	}
	return a.WriteJSON(w, showSandbox(s, asksForSandbox(include)))
}

func (a *apiV1) patchSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req PatchRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	patch := engine.Patch{Labels: req.Metadata}
	if patch.Idle, patch.MaxAge, err = req.Lifetime.durations(); err != nil {
		return err
	}
	if req.Network != nil {
		policy, err := req.Network.policy()
		if err != nil {
			return err
		}
		patch.Network = &policy
	}
	if err := s.Update(patch); err != nil {
		return err
	}
	return a.WriteJSON(w, showSandbox(s, false))
}

func (a *apiV1) deleteSandbox(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	return done(w, s.Close())
}

func (a *apiV1) sandboxStats(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	u, err := s.Stats(r.Context())
	if err != nil {
		return err
	}
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	out := SandboxUsage{WallMS: answer.Millis(u.Wall), MemoryBytes: known(u.MemoryNow), PeakMemoryBytes: known(u.MemoryPeak), Pids: known(u.PidsNow),
		OOMKills: known(u.OOMKills), PidsRefused: known(u.PidsRefused)}
	if u.CPU >= 0 {
		cpu := answer.Millis(u.CPU)
		out.CPUMS = &cpu
	}
	return a.WriteJSON(w, out)
}

func showSandbox(s *engine.Sandbox, withSandbox bool) LivingSandbox {
	i := s.Info()
	life := i.Spec.Lifetime
	out := LivingSandbox{ID: i.ID, Name: orNull(i.Name), State: "idle", Backend: i.Backend, CreatedAt: when(i.Created), UsedAt: when(i.Used),
		IdleEndsAt: when(i.IdleEnds), AgeEndsAt: when(i.AgeEnds), Running: i.Running, Contexts: make([]ContextShown, len(i.Contexts)),
		Metadata: i.Spec.Labels, Lifetime: LifetimeShown{life.Idle.Seconds(), life.MaxAge.Seconds()},
		Limits: answer.NewPolicyLimits(i.Effective.Limits), Network: answer.NewNetwork(i.Spec.Network), Sandbox: answer.NewSandbox(i.Spec, i.Effective, withSandbox)}
	if i.Running > 0 {
		out.State = "running"
	}
	for n, c := range i.Contexts {
		out.Contexts[n] = showContext(c)
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}

// when is a time for clients; "" for none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
