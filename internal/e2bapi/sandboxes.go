package e2bapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// findTemplate is GET /templates/aliases/{name}, by which SDKs find out whether a template exists.
func (f *face) findTemplate(w *httpd.Response, r *http.Request) error {
	name := r.PathValue("name")
	if !slices.Contains(baseTemplates, name) {
		return &sandbox.Error{Kind: sandbox.NotFound, Msg: "there is no template of this name"}
	}
	return f.WriteJSON(w, map[string]any{"templateID": name, "public": true})
}

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
	IAM        json.RawMessage   `json:"iam"`
}

// given reports whether a request has a value for a field.
func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// created is the answer to a request for a sandbox.
type created struct {
	TemplateID         string `json:"templateID"`
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken,omitempty"`
	TrafficAccessToken string `json:"trafficAccessToken,omitempty"`
	// Domain is that of the names of ports, with the port of this server. Without it SDKs use their setting.
	Domain string `json:"domain,omitempty"`
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
	Internet   bool              `json:"allowInternetAccess"`
	Network    network           `json:"network"`
}

// createSandbox is POST /sandboxes.
func (f *face) createSandbox(w *httpd.Response, r *http.Request) error {
	var req newSandbox
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	create, err := createOf(&req)
	if err == nil {
		err = f.checkInternet(w.Key, &create.Spec.Network)
	}
	if err != nil {
		return err
	}
	w.Rules(&create.Spec.Network)
	w.Steps(req.Network.steps())
	create.Owner, create.Prepare = w.Key, complete
	s, err := f.createOnce(w, r, &req, create)
	if err != nil {
		return err
	}
	return f.WriteStatus(w, http.StatusCreated, f.show(w, r, s).created)
}

// createOnce creates a sandbox. Requests with the same Idempotency-Key get the same one while it lives.
func (f *face) createOnce(w *httpd.Response, r *http.Request, req *newSandbox, create engine.Create) (*engine.Sandbox,
	error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		s, _, err := f.Engine().Create(r.Context(), create)
		return s, err
	}
	if len(key) > 255 {
		return nil, sandbox.Invalidf("Idempotency-Key", "is longer than 255 characters")
	}
	if err := req.checkSize(); err != nil {
		return nil, err
	}
	w.Work(req.size())
	asked, err := req.hash()
	if err != nil {
		return nil, err
	}
	named := sha256.Sum256([]byte(key))
	create.Name = "e2b-" + hex.EncodeToString(named[:16])
	create.Spec.Metadata[requestName] = hex.EncodeToString(asked[:])
	s, _, err := f.Engine().Create(r.Context(), create)
	if err != nil {
		return nil, err
	}
	if s.Info().Spec.Metadata[requestName] != create.Spec.Metadata[requestName] {
		return nil, errMismatch
	}
	return s, nil
}

// maxSettings is the most bytes of the texts of a request that is hashed. A record has no room for more.
const maxSettings = 1 << 20

// checkSize refuses large texts.
func (req *newSandbox) checkSize() error {
	if req.size() <= maxSettings {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: "sandbox",
		Msg: "its variables, metadata and rules are over the limit of " + sandbox.FormatBytes(maxSettings)}
}

// size returns the bytes of the texts that can be long.
func (req *newSandbox) size() (bytes int) {
	for _, texts := range []map[string]string{req.EnvVars, req.Metadata} {
		for name, value := range texts {
			bytes += len(name) + len(value)
		}
	}
	if req.Network != nil {
		for _, target := range slices.Concat(req.Network.AllowOut, req.Network.DenyOut) {
			bytes += len(target)
		}
	}
	return bytes
}

// hash returns the hash of the request as JSON, without the escapes for HTML, which are six times as long.
func (req *newSandbox) hash() (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	text := json.NewEncoder(hash)
	text.SetEscapeHTML(false)
	err = text.Encode(req)
	return [sha256.Size]byte(hash.Sum(nil)), err
}

// errMismatch is an Idempotency-Key of another request.
var errMismatch = &sandbox.Error{Kind: sandbox.Exists, Msg: "the Idempotency-Key was used with another request",
	Fix: "use a new key"}

// Metadata of a sandbox in which this package keeps what E2B knows of it. Clients cannot set it and do not see it.
const (
	reserved     = httpd.ReservedMetadata
	templateName = reserved + "template"
	requestName  = reserved + "request" // the hash of the request, with an Idempotency-Key
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
	if len(req.Volumes) > 0 || given(req.MCP) || given(req.IAM) {
		return c, &sandbox.Error{Kind: sandbox.Unsupported,
			Msg: "volumes, MCP gateways and identities are not supported"}
	}
	if req.AutoPause {
		return c, errNoPause
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
	if err := httpd.CheckMetadata(req.Metadata, nil); err != nil {
		return c, err
	}
	maps.Copy(c.Spec.Metadata, req.Metadata)
	timeout := defaultTimeout
	if req.Timeout != nil {
		timeout = seconds(*req.Timeout)
	}
	c.Ends = engine.Ends{Idle: new(time.Duration), In: max(timeout, time.Second)}
	if c.Spec.Network, err = req.Network.policy(req.Internet); err != nil {
		return c, err
	}
	return c, req.Network.ports(c.Spec.Metadata)
}

// domainOf returns the domain by whose name a client called, with the port of the server.
func (f *face) domainOf(r *http.Request) string {
	label := f.Label(r)
	if label == "" {
		return ""
	}
	return r.Host[len(label)+1:]
}

// show describes a sandbox.
func (f *face) show(w *httpd.Response, r *http.Request, s *engine.Sandbox) detail {
	i := s.Info()
	key := f.IdentityOf(w)
	out := detail{
		created: created{TemplateID: i.Spec.Metadata[templateName], SandboxID: string(s.ID()), ClientID: clientID,
			EnvdVersion: envdVersion, EnvdAccessToken: f.tokens.of(w.Key, key, s.ID()),
			TrafficAccessToken: f.tokens.trafficOf(w.Key, key, s.ID()), Domain: f.domainOf(r)},
		StartedAt: i.Created.UTC(), EndAt: i.Spec.Lifetime.EndsAt.UTC(), State: "running",
		CPUCount: max(1, (i.Effective.Limits.CPUMillis+999)/1000), MemoryMB: i.Effective.Limits.MemoryBytes >> 20,
		DiskSizeMB: i.Effective.Limits.DiskBytes >> 20, Metadata: map[string]string{},
	}
	out.Network, out.Internet = networkOf(&i.Spec.Network, i.Spec.Metadata)
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
		w.Sandbox = string(id)
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
	return f.WriteJSON(w, f.show(w, r, s))
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
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	in := defaultTimeout
	if req.Seconds != nil {
		in = seconds(*req.Seconds)
	}
	if time.Now().Add(in).After(s.Info().Spec.Lifetime.EndsAt) {
		if err := s.Update(engine.Patch{Ends: engine.Ends{In: in}, Extend: true}); err != nil {
			return err
		}
	}
	return f.WriteJSON(w, f.show(w, r, s).created)
}

// setTimeout is POST /sandboxes/{id}/timeout.
func (f *face) setTimeout(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req timeout
	release, err := f.ReadJSON(w, r, &req)
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

var errNoPause = &sandbox.Error{Kind: sandbox.Unsupported, Msg: "this server does not pause sandboxes",
	Fix: "extend the timeout of the sandbox"}

// pause is POST /sandboxes/{id}/pause.
func (f *face) pause(*httpd.Response, *http.Request, *engine.Sandbox) error { return errNoPause }

// health answers whether a sandbox lives.
func (f *face) health(w *httpd.Response, _ *http.Request, _ *engine.Sandbox) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
