package apiclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Network is the network policy of a new sandbox, with the values of its secrets, which no answer has.
type Network struct {
	api.Network
	Secrets []Secret `json:"secrets,omitempty"`
}

// Secret is one of a network policy.
type Secret struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
	Value string   `json:"value"`
}

// NewNetwork converts a network policy.
func NewNetwork(p sandbox.NetworkPolicy) Network {
	n := Network{Network: answer.NewNetwork(p)}
	for _, s := range p.Secrets {
		n.Secrets = append(n.Secrets, Secret{s.Name, s.Hosts, s.Value})
	}
	return n
}

// Network is what a sandbox tried to reach.
func (c *Client) Network(ctx context.Context, name string) (n api.NetworkReport, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "network"), query: url.Values{"last": {"1000"}}}, &n)
	return n, err
}

// FollowNetwork hands each attempt after the one of this id to take, as it comes, until ctx ends or take fails.
func (c *Client) FollowNetwork(ctx context.Context, name string, after uint64, take func(api.NetworkAttempt) error) error {
	response, err := c.do(ctx, call{method: http.MethodGet, path: sandboxPath(name, "network"), query: url.Values{"after": {strconv.FormatUint(after, 10)}}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	err = events(response.Body, func(e Event) error {
		var attempt api.NetworkAttempt
		if err := json.Unmarshal(e.Data, &attempt); err != nil {
			return fmt.Errorf("event %q: %w", e.Name, err)
		}
		return take(attempt)
	})
	if err == nil && ctx.Err() == nil {
		return errCut
	}
	return err
}
