package e2bapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	// envdVersion makes SDKs use what is served here.
	envdVersion = "0.6.13"

	defaultTimeout = 300 * time.Second // of a sandbox whose request names none
	clientID       = "fumehood"        // a required field without a use
)

// baseTemplates are the templates of E2B that stand for the server's default sandbox.
var baseTemplates = []string{"", "base", "code-interpreter-v1", "code-interpreter"}

// newSandbox is the body of POST /sandboxes; fields without an effect here are left out.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"` // seconds
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	Internet   *bool             `json:"allow_internet_access"`
	Network    *network          `json:"network"`
	AutoPause  bool              `json:"autoPause"`
	Volumes    []json.RawMessage `json:"volumeMounts"`
	MCP        json.RawMessage   `json:"mcp"`
}

// network are the rules of a new sandbox.
type network struct {
	AllowOut []string `json:"allowOut"`
	DenyOut  []string `json:"denyOut"`
}

// UnmarshalJSON refuses what would restrict the network and has no effect here.
func (n *network) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		switch {
		case name == "allowOut":
			if err := json.Unmarshal(value, &n.AllowOut); err != nil {
				return err
			}
		case name == "denyOut":
			if err := json.Unmarshal(value, &n.DenyOut); err != nil {
				return err
			}
		case name != "allowPublicTraffic" && name != "maskRequestHost" && string(value) != "null":
			return fmt.Errorf("network.%.40s is not supported", name)
		}
	}
	return nil
}

// created is the answer to a request for a sandbox.
type created struct {
	TemplateID         string `json:"templateID"`
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken,omitempty"`
	TrafficAccessToken string `json:"trafficAccessToken,omitempty"`
}

// detail describes a sandbox.
type detail struct {
	created
	StartedAt  time.Time         `json:"startedAt"`
	EndAt      time.Time         `json:"endAt"`
	CPUCount   int64             `json:"cpuCount"`
	MemoryMB   int64             `json:"memoryMB"`
	DiskSizeMB int64             `json:"diskSizeMB"`
	State      string            `json:"state"`
	Metadata   map[string]string `json:"metadata"`
}

// readJSON decodes the body of a request; an empty one leaves the value unchanged. The caller calls release.
func (f *face) readJSON(w *httpd.Response, r *http.Request, into any) (release func(), err error) {
	if r.Body == http.NoBody {
		return func() {}, nil
	}
	body, err := f.ReadBody(w, r)
	if err == nil && len(body.Data) > 0 {
		if err = json.Unmarshal(body.Data, into); err != nil {
			err = sandbox.Invalidf("body", "is not the JSON of this request: %v", err)
		}
	}
	return body.Release, err
}

// createSandbox is POST /sandboxes.
func (f *face) createSandbox(w *httpd.Response, r *http.Request) error {
	var req newSandbox
	release, err := f.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	create, err := createOf(&req)
	if err != nil {
		return err
	}
	create.Owner = w.Key
	s, _, err := f.Engine().Create(r.Context(), create)
	if err != nil {
		return err
	}
	if err := findHome(r.Context(), s); err != nil {
		return errors.Join(err, s.Close())
	}
	return writeJSON(w, http.StatusCreated, f.show(r, w.Key, s).created)
}

// Metadata of a sandbox in which this package keeps what E2B knows of it. Clients cannot set it and do not see it.
const (
	reserved     = "e2b."
	templateName = reserved + "template"
)

// ownEnv is the environment of each sandbox, unless its request sets these variables.
var ownEnv = map[string]string{"E2B_SANDBOX": "true", "HOME": sandbox.WorkspaceAlias}

// envOf returns variables, of which later ones win, in the form of an environment.
func envOf(layers ...map[string]string) (env []string) {
	all := map[string]string{}
	for _, layer := range layers {
		maps.Copy(all, layer)
	}
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

func createOf(req *newSandbox) (c engine.Create, err error) {
	if len(req.Volumes) > 0 || len(req.MCP) > 0 && string(req.MCP) != "null" {
		return c, &sandbox.Error{Kind: sandbox.Unsupported, Msg: "volumes and MCP gateways are not supported"}
	}
	template, _, _ := strings.Cut(req.TemplateID, ":")
	if !slices.Contains(baseTemplates, template) {
		if err := sandbox.CheckImage(req.TemplateID); err != nil {
			return c, err
		}
		c.Spec.Root.Image = req.TemplateID
	}
	c.Spec.Env = envOf(ownEnv, req.EnvVars)
	c.Spec.Metadata = map[string]string{templateName: req.TemplateID}
	for name, value := range req.Metadata {
		if strings.HasPrefix(name, reserved) {
			return c, sandbox.Invalidf("metadata", "names that begin with %s are the server's", reserved)
		}
		c.Spec.Metadata[name] = value
	}
	timeout := defaultTimeout
	if req.Timeout != nil {
		timeout = seconds(*req.Timeout)
	}
	c.Ends = engine.Ends{Idle: new(time.Duration), In: max(timeout, time.Second)}
	switch {
	case req.Internet != nil && !*req.Internet:
	case req.Network != nil && len(req.Network.AllowOut) > 0:
		c.Spec.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: req.Network.AllowOut,
			Deny: req.Network.DenyOut}
	default:
		c.Spec.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
		if req.Network != nil {
			c.Spec.Network.Deny = req.Network.DenyOut
		}
	}
	return c, nil
}

// show describes a sandbox.
func (f *face) show(r *http.Request, owner string, s *engine.Sandbox) detail {
	i := s.Info()
	key, _ := f.Identity(r, owner)
	token := f.tokens.of(owner, key, s.ID())
	out := detail{
		created: created{TemplateID: i.Spec.Metadata[templateName], SandboxID: string(s.ID()), ClientID: clientID,
			EnvdVersion: envdVersion, EnvdAccessToken: token, TrafficAccessToken: token},
		StartedAt: i.Created.UTC(), EndAt: i.Spec.Lifetime.EndsAt.UTC(), State: "running",
		CPUCount: max(1, (i.Effective.Limits.CPUMillis+999)/1000), MemoryMB: i.Effective.Limits.MemoryBytes >> 20,
		DiskSizeMB: i.Effective.Limits.DiskBytes >> 20, Metadata: map[string]string{},
	}
	for name, value := range i.Spec.Metadata {
		if !strings.HasPrefix(name, reserved) {
			out.Metadata[name] = value
		}
	}
	return out
}

// seconds returns a time, bounded by a year.
func seconds(n int64) time.Duration {
	const year = 365 * 24 * 3600
	return time.Duration(min(max(n, 0), year)) * time.Second
}

// idOf returns the id in what clients send: old SDKs append a dash and more. A name is no id.
func idOf(text string) (sandbox.ID, error) {
	text, _, _ = strings.Cut(text, "-")
	id, err := sandbox.ParseID(text)
	if err != nil {
		return "", &sandbox.Error{Kind: sandbox.NotFound, Msg: "The sandbox was not found"}
	}
	return id, nil
}

// owned finds the sandbox of a request to the control plane.
func (f *face) owned(h inside) handler {
	return func(w *httpd.Response, r *http.Request) error {
		id, err := idOf(r.PathValue("id"))
		if err != nil {
			return err
		}
		s, err := f.Engine().Sandbox(r.Context(), w.Key, string(id))
		if err == nil {
			err = s.Ended() // it may be ending
		}
		if err != nil {
			return err
		}
		return h(w, r, s)
	}
}

func (f *face) getSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	return writeJSON(w, http.StatusOK, f.show(r, w.Key, s))
}

func (f *face) deleteSandbox(w *httpd.Response, r *http.Request) error {
	id, err := idOf(r.PathValue("id"))
	if err == nil {
		err = f.Engine().Remove(w.Key, string(id))
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// timeout is the body of requests that set the end of a sandbox.
type timeout struct {
	Seconds *int64 `json:"timeout"`
}

// connectSandbox is POST /sandboxes/{id}/connect: it extends the life of the sandbox, and never shortens it.
func (f *face) connectSandbox(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req timeout
	release, err := f.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	in := defaultTimeout
	if req.Seconds != nil {
		in = seconds(*req.Seconds)
	}
	if time.Now().Add(in).After(s.Info().Spec.Lifetime.EndsAt) {
		if err := s.Update(engine.Patch{Ends: engine.Ends{In: in}}); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, f.show(r, w.Key, s).created)
}

// setTimeout is POST /sandboxes/{id}/timeout.
func (f *face) setTimeout(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req timeout
	release, err := f.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.Seconds == nil {
		return sandbox.Invalidf("timeout", "is missing")
	}
	in := max(seconds(*req.Seconds), time.Millisecond)
	if err := s.Update(engine.Patch{Ends: engine.Ends{In: in}}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause is POST /sandboxes/{id}/pause.
func (f *face) pause(*httpd.Response, *http.Request, *engine.Sandbox) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Msg: "this server does not pause sandboxes",
		Fix: "extend the timeout of the sandbox"}
}

// health answers whether a sandbox lives.
func (f *face) health(w *httpd.Response, _ *http.Request, _ *engine.Sandbox) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
