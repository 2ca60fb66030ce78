package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// MCP sends a request to the server's endpoint of the Model Context Protocol, for the living sandbox of a name or id,
// and returns an answer of status 2xx. The caller closes its body. The error for a session that the server does not
// know is NotFound.
func (c *Client) MCP(ctx context.Context, name, method string, header http.Header, body io.Reader) (
	*http.Response, error) {
	request, err := c.request(ctx, method, "/mcp", body)
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = url.Values{"sandbox": {name}}.Encode()
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	var p api.Problem
	if json.Unmarshal(text, &p) == nil && p.Detail != "" {
		response.Body = io.NopCloser(bytes.NewReader(text))
		return nil, problem(response)
	}
	kind := sandbox.Invalid
	if response.StatusCode == http.StatusNotFound {
		kind = sandbox.NotFound
	}
	return nil, &sandbox.Error{Kind: kind, Op: "mcp", Msg: string(bytes.TrimSpace(text))}
}
