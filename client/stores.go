package client

import (
	"context"
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
)

// Images lists the images and templates of the server that the caller may use, by name.
func (c *Client) Images(ctx context.Context) ([]api.StoredImage, error) {
	var list api.ImageList
	_, err := c.get(ctx, call{method: http.MethodGet, path: "/v1/images"}, &list)
	return list.Images, err
}

// Packages lists the layers of installed packages, the most recently used first: all for an operator, else those of the
// caller's living sandboxes.
func (c *Client) Packages(ctx context.Context) ([]api.PackageLayer, error) {
	var list api.PackageList
	_, err := c.get(ctx, call{method: http.MethodGet, path: "/v1/packages"}, &list)
	return list.Layers, err
}
