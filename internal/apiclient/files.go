package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// FileInfo describes a file in a sandbox. Its path is what the sandbox says, so it is hostile.
type FileInfo struct {
	Path string `json:"path"` // in a listing, relative to the folder
	Type string `json:"type"` // file, folder, symlink ...
	Mode string `json:"mode"` // octal
	Size int64  `json:"size"`
}

// filesPath is the route of files; the file itself is in the query, where no router shortens it.
func filesPath(name string) string { return sandboxPath(name, "files") }

// Stat describes one file; a path is absolute, or relative to the workspace.
func (c *Client) Stat(ctx context.Context, name, path string) (f FileInfo, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: filesPath(name), query: url.Values{"path": {path}, "stat": {"1"}}}, &f)
	return f, err
}

// List lists a folder to a depth. more reports whether there are files beyond those.
func (c *Client) List(ctx context.Context, name, path string, depth, limit int) (list []FileInfo, more bool, err error) {
	var page struct {
		Files []FileInfo `json:"files"`
		More  bool       `json:"more"`
	}
	_, err = c.get(ctx, call{method: http.MethodGet, path: filesPath(name),
		query: url.Values{"path": {path}, "list": {"1"}, "depth": {strconv.Itoa(depth)}, "limit": {strconv.Itoa(limit)}}}, &page)
	return page.Files, page.More, err
}

// Read copies a regular file to w.
func (c *Client) Read(ctx context.Context, name, path string, w io.Writer) error {
	response, err := c.do(ctx, call{method: http.MethodGet, path: filesPath(name), query: url.Values{"path": {path}}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(w, response.Body)
	if err == nil && response.ContentLength >= 0 && n != response.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Upload is the content of a file on its way into a sandbox.
type Upload struct {
	Path    string
	Mode    string // permission bits in octal
	Content io.Reader
	Size    int64 // bytes of Content; -1 is unknown
}

// Write makes or replaces a regular file.
func (c *Client) Write(ctx context.Context, name string, u Upload) error {
	target := c.base + filesPath(name) + "?" + url.Values{"path": {u.Path}, "mode": {u.Mode}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, target, u.Content)
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "server", Err: err}
	}
	request.ContentLength = u.Size
	request.Header.Set("Content-Type", "application/octet-stream")
	response, err := c.send(ctx, request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// MakeFolder makes a folder and those above it.
func (c *Client) MakeFolder(ctx context.Context, name, path string) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "mkdir"), send: map[string]string{"path": path}}, nil)
	return err
}
