package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Sandbox describes a living sandbox.
type Sandbox struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	State      string            `json:"state"` // running or idle
	Backend    string            `json:"backend"`
	CreatedAt  time.Time         `json:"created_at"`
	UsedAt     time.Time         `json:"used_at"`
	IdleEndsAt *time.Time        `json:"idle_ends_at,omitempty"` // when it ends unless it is used; nil while something runs
	AgeEndsAt  time.Time         `json:"age_ends_at"`
	Running    int               `json:"running"`
	Contexts   []Context         `json:"contexts"`
	Metadata   map[string]string `json:"metadata"`
	Lifetime   Lifetime          `json:"lifetime"`
	Limits     api.Limits        `json:"limits"`
	Sandbox    *api.Policy       `json:"sandbox,omitempty"` // where less is enforced than was asked for
}

// Shown is the sandbox's name, or its id.
func (s *Sandbox) Shown() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// Context describes an interpreter that keeps its state.
type Context struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Language  string    `json:"language"`
	Dir       string    `json:"dir"`
	State     string    `json:"state"` // new, idle, busy or ended
	Waiting   int       `json:"waiting"`
	Runs      uint64    `json:"runs"`
	CreatedAt time.Time `json:"created_at"`
}

// NewSandbox asks for a living sandbox. Absent fields get the server's defaults.
type NewSandbox struct {
	Name            string            `json:"name,omitempty"`
	Backend         string            `json:"backend,omitempty"`
	Image           string            `json:"image,omitempty"`
	Env             map[string]string `json:"env,omitempty"`
	Limits          api.Limits        `json:"limits,omitzero"`
	Network         Network           `json:"network,omitzero"`
	AllowUnenforced []string          `json:"allow_unenforced,omitempty"`
	Lifetime        Lifetime          `json:"lifetime,omitzero"`
	Metadata        map[string]string `json:"metadata,omitempty"`
}

// Lifetime is how long a sandbox lives, in seconds.
type Lifetime struct {
	IdleS   float64 `json:"idle_s,omitempty"`
	MaxAgeS float64 `json:"max_age_s,omitempty"`
}

// maxPage is the most sandboxes that are asked for at once.
const maxPage = 500

func sandboxPath(name string, steps ...string) string {
	path := "/v1/sandboxes"
	for _, step := range append([]string{name}, steps...) {
		path += "/" + url.PathEscape(step)
	}
	return path
}

// Create makes a sandbox, or finds the one of its name; made reports which.
func (c *Client) Create(ctx context.Context, asks NewSandbox) (s Sandbox, made bool, err error) {
	status, err := c.get(ctx, call{method: http.MethodPost, path: "/v1/sandboxes", send: asks}, &s)
	return s, status == http.StatusCreated, err
}

// Sandboxes calls each with all sandboxes that have the labels, the oldest first.
func (c *Client) Sandboxes(ctx context.Context, labels map[string]string) ([]Sandbox, error) {
	query := url.Values{"limit": {strconv.Itoa(maxPage)}}
	for k, v := range labels {
		query.Add("label", k+":"+v)
	}
	all := []Sandbox{}
	for {
		var page struct {
			Sandboxes []Sandbox `json:"sandboxes"`
			More      bool      `json:"more"`
		}
		if _, err := c.get(ctx, call{method: http.MethodGet, path: "/v1/sandboxes", query: query}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sandboxes...)
		if !page.More || len(page.Sandboxes) == 0 {
			return all, nil
		}
		query.Set("after", all[len(all)-1].ID)
	}
}

// Sandbox describes one sandbox, by name or id.
func (c *Client) Sandbox(ctx context.Context, name string) (s Sandbox, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name)}, &s)
	return s, err
}

// Remove ends a sandbox; its files are lost.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.get(ctx, call{method: http.MethodDelete, path: sandboxPath(name)}, nil)
	return err
}

// Clean empties the workspace; with force also one that is a directory of the host.
func (c *Client) Clean(ctx context.Context, name string, force bool) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "clean"), send: struct {
		Force bool `json:"force,omitempty"`
	}{force}}, nil)
	return err
}

// Usage is what a sandbox uses. What the server cannot measure is nil.
type Usage struct {
	WallMS          float64  `json:"wall_ms"` // since it was made
	CPUMS           *float64 `json:"cpu_ms"`
	MemoryBytes     *int64   `json:"memory_bytes"`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes"`
	Pids            *int64   `json:"pids"`
	OOMKills        *int64   `json:"oom_kills"`
	PidsRefused     *int64   `json:"pids_refused"`
}

// Stats is what a sandbox uses.
func (c *Client) Stats(ctx context.Context, name string) (u Usage, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "stats")}, &u)
	return u, err
}

// EnsureContext makes a context of a language ("" is the server's default), unless one has the name or id.
func (c *Client) EnsureContext(ctx context.Context, name, context, language string) error {
	s, err := c.Sandbox(ctx, name)
	if err != nil || slices.ContainsFunc(s.Contexts, func(c Context) bool { return c.Name == context || c.ID == context }) {
		return err
	}
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "contexts"),
		send: map[string]string{"name": context, "language": language}}, &Context{})
	if sandbox.KindOf(err) == sandbox.Exists && err != nil { // another caller was faster
		return nil
	}
	return err
}

// Interrupt interrupts what runs in a context; its state stays.
func (c *Client) Interrupt(ctx context.Context, name, context string) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "contexts", context, "interrupt")}, nil)
	return err
}

// Restart starts a context's interpreter anew; its state is lost.
func (c *Client) Restart(ctx context.Context, name, context string) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "contexts", context, "restart")}, nil)
	return err
}
