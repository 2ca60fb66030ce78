package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/fumehood-dev/fumehood/api"
)

const volumesPath = "/v1/volumes"

// CreateVolume creates a named volume.
func (c *Client) CreateVolume(ctx context.Context, r api.VolumeRequest) (v api.Volume, err error) {
	_, err = c.get(ctx, call{method: http.MethodPost, path: volumesPath, send: r}, &v)
	return v, err
}

// Volumes lists the named volumes of the caller, with the sandboxes that use them.
func (c *Client) Volumes(ctx context.Context) ([]api.Volume, error) {
	var list api.VolumeList
	_, err := c.get(ctx, call{method: http.MethodGet, path: volumesPath}, &list)
	return list.Volumes, err
}

// RemoveVolume removes a named volume that no sandbox uses; its files are lost.
func (c *Client) RemoveVolume(ctx context.Context, name string) error {
	_, err := c.get(ctx, call{method: http.MethodDelete, path: volumesPath + "/" + url.PathEscape(name)}, nil)
	return err
}
