package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxPage is the most sandboxes of one request.
const maxPage = 500

func sandboxPath(name string, steps ...string) string {
	path := "/v1/sandboxes"
	for _, step := range append([]string{name}, steps...) {
		path += "/" + url.PathEscape(step)
	}
	return path
}

// Create creates a sandbox, or finds the one of its name; created reports which.
func (c *Client) Create(ctx context.Context, r api.SandboxRequest) (s api.Sandbox, created bool, err error) {
	status, err := c.get(ctx, call{method: http.MethodPost, path: "/v1/sandboxes", send: r}, &s)
	return s, status == http.StatusCreated, err
}

// Sandboxes lists all sandboxes that have the metadata, the oldest first.
func (c *Client) Sandboxes(ctx context.Context, metadata map[string]string) ([]api.Sandbox, error) {
	query := url.Values{"limit": {strconv.Itoa(maxPage)}}
	for k, v := range metadata {
		query.Add("metadata", k+":"+v)
	}
	all := []api.Sandbox{}
	for {
		var page api.SandboxList
		if _, err := c.get(ctx, call{method: http.MethodGet, path: "/v1/sandboxes", query: query}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sandboxes...)
		if !page.More || len(page.Sandboxes) == 0 {
			return all, nil
		}
		query.Set("after", string(all[len(all)-1].ID))
	}
}

// Sandbox describes one sandbox, by name or id.
func (c *Client) Sandbox(ctx context.Context, name string) (s api.Sandbox, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name)}, &s)
	return s, err
}

// Remove ends a sandbox; its files are lost.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.get(ctx, call{method: http.MethodDelete, path: sandboxPath(name)}, nil)
	return err
}

// Clean empties the workspace. force is required if the workspace is a directory of the host.
func (c *Client) Clean(ctx context.Context, name string, force bool) error {
	return c.post(ctx, api.CleanRequest{Force: force}, name, "clean")
}

// Stats returns the resource usage of a sandbox.
func (c *Client) Stats(ctx context.Context, name string) (u api.SandboxUsage, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "stats")}, &u)
	return u, err
}

// EnsureContext creates a context unless it exists.
func (c *Client) EnsureContext(ctx context.Context, name, context, language string) error {
	s, err := c.Sandbox(ctx, name)
	exists := func(c api.Context) bool { return c.Name == context || string(c.ID) == context }
	if err != nil || slices.ContainsFunc(s.Contexts, exists) {
		return err
	}
	err = c.post(ctx, api.ContextRequest{Name: context, Language: language}, name, "contexts")
	if err != nil && sandbox.KindOf(err) == sandbox.Exists { // another caller was faster
		return nil
	}
	return err
}

// Interrupt interrupts the running code of a context, which keeps its state.
func (c *Client) Interrupt(ctx context.Context, name, context string) error {
	return c.post(ctx, nil, name, "contexts", context, "interrupt")
}

// Restart restarts a context's interpreter; its state is lost.
func (c *Client) Restart(ctx context.Context, name, context string) error {
	return c.post(ctx, nil, name, "contexts", context, "restart")
}

// Complete returns the names that fit at the cursor, an offset in bytes of the code, in a context.
func (c *Client) Complete(ctx context.Context, name, context, code string, cursor int) (fit api.Completion, err error) {
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "contexts", context, "complete"),
		send: api.CompleteRequest{Code: code, Cursor: &cursor}}, &fit)
	return fit, err
}

// post sends a request to a path of a sandbox, and ignores the content of a success.
func (c *Client) post(ctx context.Context, body any, name string, steps ...string) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, steps...), send: body}, nil)
	return err
}
