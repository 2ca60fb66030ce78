package openaiapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// nameKey is the metadata with the name of a container, which need not be unique.
const nameKey = "openai.name"

const (
	defaultIdle = 20 * time.Minute // as at OpenAI
	maxName     = 500              // bytes
	maxPage     = 100              // entries of one list
	defaultPage = 20
)

// memories are OpenAI's limits of memory.
var memories = map[string]int64{"1g": 1 << 30, "4g": 4 << 30, "16g": 16 << 30, "64g": 64 << 30}

// newContainer is the body of POST /containers.
type newContainer struct {
	Name    string `json:"name"`
	Expires *struct {
		Anchor  string `json:"anchor"`
		Minutes int64  `json:"minutes"`
	} `json:"expires_after"`
	Memory  string         `json:"memory_limit"`
	Network *networkPolicy `json:"network_policy"`
	FileIDs []string       `json:"file_ids"`
	Skills  []any          `json:"skills"`
}

type networkPolicy struct {
	Type    string   `json:"type"`
	Domains []string `json:"allowed_domains,omitempty"`
	Secrets []any    `json:"domain_secrets,omitempty"`
}

// container describes a container.
type container struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created_at"` // seconds
	Status  string        `json:"status"`
	Expires expiry        `json:"expires_after"`
	Active  int64         `json:"last_active_at"` // seconds
	Memory  string        `json:"memory_limit,omitempty"`
	Network networkPolicy `json:"network_policy"`
	Name    string        `json:"name"`
}

type expiry struct {
	Anchor  string `json:"anchor"`
	Minutes int64  `json:"minutes"`
}

func show(s *engine.Sandbox) container {
	i := s.Info()
	out := container{ID: idPrefix + string(i.ID), Object: "container", Created: i.Created.Unix(), Status: "running",
		Expires: expiry{"last_active_at", int64(i.Spec.Lifetime.Idle / time.Minute)}, Active: i.Used.Unix(),
		Name: i.Spec.Metadata[nameKey], Network: networkPolicy{Type: "disabled"}}
	for name, bytes := range memories {
		if bytes == i.Effective.Limits.MemoryBytes {
			out.Memory = name
		}
	}
	if n := i.Spec.Network; n.Linked() {
		out.Network = networkPolicy{Type: "allowlist", Domains: n.Allow}
	}
	return out
}

func createOf(req *newContainer) (c engine.Create, err error) {
	if req.Name == "" || len(req.Name) > maxName {
		return c, sandbox.Invalidf("name", "must have from 1 to %d bytes", maxName)
	}
	if len(req.FileIDs) > 0 || len(req.Skills) > 0 {
		return c, &sandbox.Error{Kind: sandbox.Unsupported, Msg: "file_ids and skills are not supported",
			Fix: "send the files with POST /containers/{id}/files"}
	}
	idle := defaultIdle
	if e := req.Expires; e != nil {
		if e.Anchor != "last_active_at" || e.Minutes < 1 || e.Minutes > int64(engine.MaxLifetime/time.Minute) {
			return c, sandbox.Invalidf("expires_after", "must be a number of minutes from 1 after last_active_at")
		}
		idle = time.Duration(e.Minutes) * time.Minute
	}
	c.Ends = engine.Ends{Idle: &idle}
	c.Spec.Metadata = map[string]string{nameKey: req.Name}
	if req.Memory != "" {
		bytes, ok := memories[req.Memory]
		if !ok {
			return c, sandbox.Invalidf("memory_limit", "%.20q is not one of 1g, 4g, 16g and 64g", req.Memory)
		}
		c.Spec.Limits.MemoryBytes = bytes
	}
	switch n := req.Network; {
	case n == nil || n.Type == "disabled":
	case n.Type != "allowlist" || len(n.Domains) == 0:
		return c, sandbox.Invalidf("network_policy", "must be disabled, or an allowlist with allowed_domains")
	case len(n.Secrets) > 0:
		return c, &sandbox.Error{Kind: sandbox.Unsupported, Msg: "domain_secrets are not supported",
			Fix: "create the sandbox with secrets by /v1/sandboxes"}
	default:
		c.Spec.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: n.Domains}
	}
	return c, nil
}

// createContainer is POST /containers.
func (f *face) createContainer(w *httpd.Response, r *http.Request) error {
	var req newContainer
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	create, err := createOf(&req)
	if err != nil {
		return err
	}
	create.Owner = w.Key
	w.Rules(&create.Spec.Network)
	s, _, err := f.Engine().Create(r.Context(), create)
	if err != nil {
		return err
	}
	return f.WriteJSON(w, show(s))
}

func (f *face) getContainer(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	return f.WriteJSON(w, show(s))
}

func (f *face) deleteContainer(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	id := s.ID()
	if err := f.Engine().Remove(w.Key, string(id)); err != nil {
		return err
	}
	return f.WriteJSON(w, deleted{idPrefix + string(id), "container.deleted", true})
}

// deleted is the answer to a removal.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// page is one page of a list.
type page[T any] struct {
	Object string  `json:"object"`
	Data   []T     `json:"-"` // sent one by one
	First  *string `json:"first_id"`
	Last   *string `json:"last_id"`
	More   bool    `json:"has_more"`
}

// pageOf returns the page that a query asks for of a list that is sorted from the oldest.
func pageOf[T any](q url.Values, list []T, id func(T) string) (p page[T], err error) {
	p.Object, p.Data = "list", []T{}
	limit := defaultPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return p, sandbox.Invalidf("limit", "must be from 1 to %d", maxPage)
		}
	}
	if q.Get("order") != "asc" {
		slices.Reverse(list)
	}
	if after := q.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == after })
		if i < 0 {
			return p, sandbox.Invalidf("after", "is not in the list")
		}
		list = list[i+1:]
	}
	if p.More = len(list) > limit; p.More {
		list = list[:limit]
	}
	if len(list) > 0 {
		first, last := id(list[0]), id(list[len(list)-1])
		p.Data, p.First, p.Last = list, &first, &last
	}
	return p, nil
}

// listContainers is GET /containers.
func (f *face) listContainers(w *httpd.Response, r *http.Request) error {
	q := r.URL.Query()
	var wanted map[string]string
	if name := q.Get("name"); name != "" {
		wanted = map[string]string{nameKey: name}
	}
	var list []sandbox.ID
	for after := sandbox.ID(""); ; {
		some, more, err := f.Engine().Sandboxes(w.Key, wanted, after, 0)
		if err != nil {
			return err
		}
		for _, id := range some {
			w.Steps(1) // also of containers that the answer omits
			if s := f.Engine().Living(id); s != nil {
				if s.Info().Spec.Metadata[nameKey] != "" {
					list = append(list, id)
				}
			}
			after = id
		}
		if !more || len(some) == 0 {
			break
		}
	}
	p, err := pageOf(q, list, func(id sandbox.ID) string { return idPrefix + string(id) })
	if err != nil {
		return err
	}
	out := f.NewListAfter(w, p, "data")
	for _, id := range p.Data {
		s := f.Engine().Living(id)
		if s == nil { // it has ended since
			continue
		}
		if err := out.Add(show(s)); err != nil {
			return out.Fail(err)
		}
	}
	return out.End(nil)
}
