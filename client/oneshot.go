package client

import (
	"context"
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const oneShotPath = "/v1/run"

// RunOneShot runs code or a command in a fresh sandbox, which then ends, and returns its answer. A failed program is a
// status of the answer. The end of ctx cancels the run.
func (c *Client) RunOneShot(ctx context.Context, r api.RunRequest) (a api.Answer, err error) {
	_, err = c.get(ctx, call{method: http.MethodPost, path: oneShotPath, send: r}, &a)
	return a, err
}

// StreamOneShot is RunOneShot that hands each event to take. The functions of tools answer calls of the code as those
// of StreamTools do. ErrCut means that the server ended the run.
func (c *Client) StreamOneShot(
	ctx context.Context, r api.RunRequest, tools []sandbox.Tool, take func(Event) error,
) error {
	if len(tools) > 0 {
		r.Tools = Tools(tools...)
	}
	a := answering{client: c, tools: tools}
	return a.follow(ctx, take, func(take func(Event) error) error {
		return c.toEnd(ctx, call{method: http.MethodPost, path: oneShotPath, send: r}, runAgain, take)
	})
}
