package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
)

// Network returns the network report of a sandbox: its policy, totals and last attempts.
func (c *Client) Network(ctx context.Context, name string) (n api.NetworkReport, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "network"),
		query: url.Values{"last": {"1000"}}}, &n)
	return n, err
}

// FollowNetwork hands each attempt after the one of this id to take, as it occurs, until ctx ends or take fails.
func (c *Client) FollowNetwork(ctx context.Context, name string, after uint64,
	take func(api.NetworkAttempt) error) error {
	r := call{method: http.MethodGet, path: sandboxPath(name, "network"),
		query: url.Values{"after": {strconv.FormatUint(after, 10)}}}
	err := c.events(ctx, r, func(e Event) error {
		var attempt api.NetworkAttempt
		if err := json.Unmarshal(e.Data, &attempt); err != nil {
			return fmt.Errorf("event %q: %w", e.Name, err)
		}
		return take(attempt)
	})
	if err == nil && ctx.Err() == nil {
		return cut(nil, "follow the attempts again, after the id of the last one")
	}
	return err
}
