package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
)

// filesPath is the path of file operations. The path of the file is in the query, where no router shortens it.
func filesPath(name string) string { return sandboxPath(name, "files") }

// Stat describes one file; a path is absolute, or relative to the workspace.
func (c *Client) Stat(ctx context.Context, name, path string) (f api.FileInfo, err error) {
	query := url.Values{"path": {path}, "stat": {"1"}}
	_, err = c.get(ctx, call{method: http.MethodGet, path: filesPath(name), query: query}, &f)
	return f, err
}

// List lists at most limit files of a folder, to a depth.
func (c *Client) List(ctx context.Context, name, path string, depth, limit int) (list api.FileList, err error) {
	query := url.Values{"path": {path}, "list": {"1"}, "depth": {strconv.Itoa(depth)}, "limit": {strconv.Itoa(limit)}}
	_, err = c.get(ctx, call{method: http.MethodGet, path: filesPath(name), query: query}, &list)
	return list, err
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

// Write creates or replaces a regular file.
func (c *Client) Write(ctx context.Context, name string, u Upload) error {
	_, err := c.get(ctx, call{method: http.MethodPut, path: filesPath(name), body: u.Content, size: u.Size,
		query: url.Values{"path": {u.Path}, "mode": {u.Mode}}}, nil)
	return err
}

// MakeFolder creates a folder and its missing parents.
func (c *Client) MakeFolder(ctx context.Context, name, path string) error {
	return c.post(ctx, api.FolderRequest{Path: path}, name, "mkdir")
}
