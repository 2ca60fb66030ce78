package httpapi

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// living handles a request to one living sandbox.
type living = httpd.InSandbox

// in finds the sandbox of a request.
func (a *apiV1) in(h living) func(*httpd.Response, *http.Request) error { return with(a.own, h) }

// inAny is in, for requests of an operator also with the id of a sandbox of another key.
func (a *apiV1) inAny(h living) func(*httpd.Response, *http.Request) error {
	return with(func(w *httpd.Response, r *http.Request) (*engine.Sandbox, error) {
		if s, err := a.ofOther(w, r); s != nil {
			return s, err
		}
		return a.own(w, r)
	}, h)
}

// with calls h with the sandbox that find returns.
func with(find func(*httpd.Response, *http.Request) (*engine.Sandbox, error),
	h living) func(*httpd.Response, *http.Request) error {
	return func(w *httpd.Response, r *http.Request) error {
		s, err := find(w, r)
		if err == nil {
			w.Sandbox = string(s.ID())
			err = h(w, r, s)
		}
		return gaveUp(r, err)
	}
}

// own returns the sandbox of a request of its owner.
func (a *apiV1) own(w *httpd.Response, r *http.Request) (*engine.Sandbox, error) {
	return a.Engine().Sandbox(r.Context(), w.Key, r.PathValue("id"))
}

// ofOther returns the sandbox of a request of an operator if another key owns it, else nil.
func (a *apiV1) ofOther(w *httpd.Response, r *http.Request) (*engine.Sandbox, error) {
	if !w.Operator {
		return nil, nil
	}
	s, err := a.Engine().SandboxOfAny(r.Context(), sandbox.ID(r.PathValue("id")))
	if s == nil || s.Owner() == w.Key {
		return nil, nil
	}
	w.Sandbox = string(s.ID())
	return s, err
}

// gaveUp keeps the error of a client that has left out of the server's log.
func gaveUp(r *http.Request, err error) error {
	if err == nil || r.Context().Err() == nil || sandbox.KindOf(err) != sandbox.Internal {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the client has left"}
}

// done answers without content, unless err is set.
func done(w *httpd.Response, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// createSandbox is POST /v1/sandboxes.
func (a *apiV1) createSandbox(w *httpd.Response, r *http.Request) error {
	var req api.SandboxRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	create, err := createOf(&req)
	if err == nil {
		create.Packages, err = a.packagesOf(req.Packages, req.AllowBuild)
	}
	if err != nil {
		return err
	}
	create.Owner = w.Key
	w.Rules(&create.Spec.Network)
	s, created, err := a.Engine().Create(r.Context(), create)
	if err != nil {
		return gaveUp(r, err)
	}
	out := showSandbox(s, slices.Contains(req.Include, api.SectionPolicy))
	switch {
	case created:
		return a.WriteStatus(w, http.StatusCreated, out)
	case req.IfExists == ifExistsFail:
		return &sandbox.Error{Kind: sandbox.Exists, Op: "name", Msg: "a sandbox named " + req.Name + " exists already",
			Fix: "choose another name, or use the existing one"}
	}
	info := s.Info()
	out.Existing, out.Differences = true, differencesFrom(&create, &info)
	return a.WriteJSON(w, out)
}

// The values of if_exists.
const (
	ifExistsUse  = "use"
	ifExistsFail = "fail"
)

// createOf converts a request for a living sandbox.
func createOf(r *api.SandboxRequest) (c engine.Create, err error) {
	if err = checkInclude(r.Include); err != nil {
		return c, err
	}
	if r.IfExists != "" && r.IfExists != ifExistsUse && r.IfExists != ifExistsFail {
		return c, sandbox.Invalidf("if_exists", "%.40q is not use or fail", r.IfExists)
	}
	if c.Spec, err = specOf(&r.Isolation); err != nil {
		return c, err
	}
	if c.Spec.Env, err = envOf(r.Env); err != nil {
		return c, err
	}
	if c.Ends, err = endsOf(&r.Lifetime); err != nil {
		return c, err
	}
	c.Name, c.Backend, c.Spec.Metadata = r.Name, r.Backend, r.Metadata
	return c, httpd.CheckMetadata(r.Metadata, nil)
}

// packagesOf sorts packages by language: LANGUAGE:NAME, or NAME for the default language.
func (a *apiV1) packagesOf(list []string, allowBuild bool) (map[string]sandbox.Packages, error) {
	names := map[string][]string{}
	for i, text := range list {
		language := a.defaultLanguage()
		if prefix, name, found := strings.Cut(text, ":"); found && !strings.ContainsAny(prefix, " @[=<>") {
			l, err := a.Engine().Language(prefix)
			if err != nil {
				return nil, sandbox.Invalidf("packages["+strconv.Itoa(i)+"]", "%.40q is no language", prefix)
			}
			language, text = l.Name, name
		}
		if text == sandbox.PackagesAuto {
			return nil, sandbox.Invalidf("packages["+strconv.Itoa(i)+"]", "auto is for runs, whose code imports them")
		}
		names[language] = append(names[language], text)
	}
	out := map[string]sandbox.Packages{}
	for language, list := range names {
		out[language] = sandbox.PackagesOf(list, allowBuild, "")
	}
	return out, nil
}

// endsOf converts the ends of a sandbox.
func endsOf(l *api.Lifetime) (e engine.Ends, err error) {
	if l.IdleS != nil {
		e.Idle = new(duration(*l.IdleS))
	}
	if e.At = l.EndsAt; l.EndsInS != nil {
		if e.In = duration(*l.EndsInS); e.In == 0 {
			return e, sandbox.Invalidf("lifetime.ends_in_s", "must be more than 0")
		}
	}
	if !e.At.IsZero() && e.In != 0 {
		err = sandbox.Invalidf("lifetime", "has both ends_at and ends_in_s")
	}
	return e, err
}

// duration converts seconds. It rounds away from zero, and cuts large numbers to a duration above every bound.
func duration(seconds float64) time.Duration {
	const most = 1e9
	seconds = min(max(seconds, -most), most)
	return time.Duration(math.Copysign(math.Ceil(math.Abs(seconds)*float64(time.Second)), seconds))
}

// maxSandboxPage is the most sandboxes in one answer.
const maxSandboxPage = 1000

// listSandboxes is GET /v1/sandboxes.
func (a *apiV1) listSandboxes(w *httpd.Response, r *http.Request) error {
	q := query{r: r}
	metadata, err := q.metadata()
	if err != nil {
		return err
	}
	limit := q.number("limit", 0, 1, maxSandboxPage)
	if q.err != nil {
		return q.err
	}
	after := sandbox.ID(q.text("after"))
	var list []sandbox.ID
	var more bool
	switch all := q.truth("all"); {
	case all && !w.Operator:
		return httpd.Refuse(http.StatusForbidden, sandbox.Unauthorized, "the API key is not one of an operator",
			"fumehood keys create NAME --operator")
	case all:
		list, more, err = a.Engine().SandboxesOfAny(metadata, after, limit)
	default:
		list, more, err = a.Engine().Sandboxes(w.Key, metadata, after, limit)
	}
	if err != nil {
		return err
	}
	out := a.NewList(w, "sandboxes")
	for _, id := range list {
		s := a.Engine().Living(id)
		if s == nil { // it has ended since
			continue
		}
		if err := out.Add(showSandbox(s, false)); err != nil {
			return out.Fail(err)
		}
	}
	return out.End(&more)
}

func (a *apiV1) getSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	include := (&query{r: r}).all("include")
	return a.WriteJSON(w, showSandbox(s, slices.Contains(include, string(api.SectionPolicy))))
}

func (a *apiV1) patchSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox, req *api.SandboxPatch) error {
	ends, err := endsOf(&req.Lifetime)
	if err != nil {
		return err
	}
	limits, err := answer.LimitsOf(&req.Limits)
	if err != nil {
		return err
	}
	if err := httpd.CheckMetadata(req.Metadata, s.Info().Spec.Metadata); err != nil {
		return err
	}
	patch := engine.Patch{Metadata: req.Metadata, Ends: ends, Limits: limits}
	if req.Network != nil {
		policy, err := networkOf(req.Network)
		if err != nil {
			return err
		}
		w.Rules(&policy)
		patch.Network = &policy
	}
	if err := s.Update(patch); err != nil {
		return err
	}
	return a.WriteJSON(w, showSandbox(s, false))
}

func (a *apiV1) deleteSandbox(w *httpd.Response, r *http.Request) error {
	if s, _ := a.ofOther(w, r); s != nil { // one that is not ready ends too
		return gaveUp(r, done(w, s.Close()))
	}
	return gaveUp(r, done(w, a.Engine().Remove(w.Key, r.PathValue("id"))))
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
	out := api.SandboxUsage{WallMS: answer.Millis(u.Wall), MemoryBytes: known(u.MemoryNow),
		PeakMemoryBytes: known(u.MemoryPeak), Pids: known(u.PidsNow), OOMKills: known(u.OOMKills),
		PidsRefused: known(u.PidsRefused)}
	if u.CPU >= 0 {
		out.CPUMS = new(answer.Millis(u.CPU))
	}
	return a.WriteJSON(w, out)
}

func showSandbox(s *engine.Sandbox, withPolicy bool) api.Sandbox {
	i := s.Info()
	life := i.Spec.Lifetime
	out := api.Sandbox{
		ID: i.ID, Name: i.Name, Owner: s.Owner(), State: i.State, Backend: i.Backend,
		CreatedAt: i.Created.UTC(), UsedAt: i.Used.UTC(), IdleEndsAt: i.IdleEnds.UTC(),
		Running: i.Running, Contexts: contextsOf(i.Contexts), Metadata: i.Spec.Metadata,
		Lifetime: api.Lifetime{IdleS: new(life.Idle.Seconds()), EndsAt: life.EndsAt.UTC()},
		Limits:   answer.NewLimits(i.Effective.Limits), Network: answer.NewNetwork(i.Spec.Network),
		Policy: answer.NewPolicy(i.Spec, i.Effective, withPolicy),
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}
