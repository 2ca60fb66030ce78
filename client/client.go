// Package client speaks version 1 of Fumehood's HTTP API: living sandboxes, their runs, files, networks and ports.
//
// Errors are *sandbox.Error: a problem of the server keeps its kind, text and hint. Output, values and files of a
// sandbox are returned unmodified; treat them as hostile.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// UnixPrefix marks a server's address that is the path of a Unix socket.
const UnixPrefix = "unix:"

const (
	dialTimeout = 10 * time.Second
	maxProblem  = 64 << 10  // bytes of a problem that are read
	maxAnswer   = 256 << 20 // bytes of a JSON answer: output, values and returned files, as base64
)

// Config has the address of a server, and the credentials for it.
type Config struct {
	Server string // http://HOST:PORT, https://HOST:PORT or unix:PATH
	Key    string // the API key, or ""
	Agent  string // the User-Agent header
}

// Client talks to one server. Its methods are safe for concurrent use.
type Client struct {
	config Config
	base   string // URL without a slash at the end
	http   http.Client
}

// New returns a client. It connects with the first call.
func New(config Config) (*Client, error) {
	c := &Client{config: config, base: strings.TrimRight(config.Server, "/")}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true}
	if path, ok := strings.CutPrefix(config.Server, UnixPrefix); ok {
		c.base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	} else if u, err := url.Parse(config.Server); err != nil || u.Host == "" || u.User != nil ||
		u.Scheme != "http" && u.Scheme != "https" {
		given := fmt.Sprintf("%.100q", config.Server)
		if strings.Contains(config.Server, "@") { // it may have a password
			given = "an address with a user"
		}
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "server",
			Msg: given + " is not the address of a server",
			Fix: "write http://HOST:PORT, https://HOST:PORT or unix:PATH"}
	}
	c.http.Transport = transport
	// the key is for this server
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request.
type call struct {
	method string
	path   string
	query  url.Values
	accept string    // media type of the answer; "" is any
	body   io.Reader // nil sends no body
	size   int64     // of body; 0 is unknown
	send   any       // the body as JSON, in place of body
}

// do sends a request and returns an answer of status 2xx, whose body the caller closes.
func (c *Client) do(ctx context.Context, r call) (*http.Response, error) {
	body, media := r.body, api.MediaBytes
	if r.send != nil {
		text, err := json.Marshal(r.send)
		if err != nil {
			return nil, err
		}
		body, media = bytes.NewReader(text), api.MediaJSON
	}
	request, err := c.request(ctx, r.method, r.path, body)
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = r.query.Encode()
	if body != nil {
		request.Header.Set("Content-Type", media)
	}
	if r.size != 0 {
		request.ContentLength = r.size
	}
	if r.accept != "" {
		request.Header.Set("Accept", r.accept)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, problem(response)
	}
	return response, nil
}

// request returns a request with the headers of this client.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "server", Err: err}
	}
	if c.config.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.config.Key)
	}
	request.Header.Set("User-Agent", c.config.Agent)
	return request, nil
}

// unreachable returns the error of a request without an answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &sandbox.Error{Kind: sandbox.Unavailable, Fix: "start one with: fumehood serve",
			Msg: "no Fumehood server is reachable at " + c.config.Server + ": " + op.Err.Error()}
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "server", Msg: "it did not answer", Err: err}
}

// problem returns the error of an answer without success.
func problem(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	var p api.Problem
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "server",
			Msg: "it answered " + response.Status + ", which is not an answer of Fumehood",
			Fix: "check the address of the server"}
	}
	wait, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return problemError(p, time.Duration(wait)*time.Second)
}

func problemError(p api.Problem, wait time.Duration) error {
	e := &sandbox.Error{Kind: p.Kind, Msg: p.Detail, RetryAfter: wait}
	if msg, ok := strings.CutPrefix(p.Detail, p.Param+": "); ok {
		e.Op, e.Msg = p.Param, msg
	}
	if len(p.Hints) == 0 {
		e.Fix = p.Hint
	}
	for _, h := range api.TypedHints(p.Hints) {
		if text, ok := h.(sandbox.FixText); ok && e.Fix == "" {
			e.Fix = text.Text
		} else {
			e.Fixes = append(e.Fixes, h)
		}
	}
	return e
}

// events sends a request and hands each event of the answer to take.
func (c *Client) events(ctx context.Context, r call, take func(Event) error) error {
	r.accept = api.MediaEvents
	response, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return readEvents(response.Body, take)
}

// get sends a request and decodes its JSON answer into a value; nil expects no answer.
func (c *Client) get(ctx context.Context, r call, into any) (status int, err error) {
	response, err := c.do(ctx, r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if into == nil {
		// read it to its end, so that the connection can be used again
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxProblem))
	} else {
		err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(into)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err != nil {
		err = &sandbox.Error{Kind: sandbox.Unavailable, Op: "server", Msg: "its answer broke off", Err: err}
	}
	return response.StatusCode, err
}
