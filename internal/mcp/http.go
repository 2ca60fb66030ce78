package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the sessions of one owner, and of all. Each is ended by its client, or when it is idle.
const (
	maxSessions    = 1000
	maxAllSessions = 4000
)

// messageSteps is the work of a message, besides its bytes.
const messageSteps = 80

const sessionHeader = "Mcp-Session-Id"

// door serves MCP at /mcp. Each owner has a separate server, so that it reaches only its own sessions.
type door struct {
	*httpd.Server

	mu     sync.Mutex // guards all below
	owners map[string]*owner
	closed bool
}

// owner is the server of one API key.
type owner struct {
	*Server
	handler http.Handler

	mu       sync.Mutex          // guards all below
	requests map[string]*request // by id, while they are served
}

// request is a request to /mcp, for the call of a tool that it carries.
type request struct {
	response  *httpd.Response
	arguments json.RawMessage // of the tool
	named     string          // the sandbox of its query, or ""
}

// requestHeader has the id of a request, by which a call finds it.
const requestHeader = "X-Request-Id"

// enter makes a request known to its call, until leave.
func (o *owner) enter(x *request, h http.Header) (leave func()) {
	id := x.response.ID
	h.Set(requestHeader, id)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests[id] = x
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.requests, id)
	}
}

// find returns the request of a call.
func (o *owner) find(h http.Header) (*request, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.requests[h.Get(requestHeader)]; x != nil {
		return x, nil
	}
	return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "mcp", Msg: "the request has ended"}
}

// Add adds /mcp: streamable HTTP, with one living sandbox per session, or the one that ?sandbox=NAME names, which
// outlives the session. The server must not be serving yet. The returned
// function ends all sessions and their sandboxes; call it before the engine's Close.
//
// There is no GET, which clients may try: the server sends no message outside of a call.
func Add(server *httpd.Server) (closeAll func()) {
	d := &door{Server: server, owners: map[string]*owner{}}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		server.Handle(httpd.Route{Method: method, Path: "/mcp", Handler: d.serve})
	}
	return d.close
}

// of returns the server of an owner: at most one for each key; nil after close.
func (d *door) of(name string) *owner {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if o := d.owners[name]; o != nil {
		return o
	}
	o := &owner{requests: map[string]*request{}}
	o.Server = New(Config{Engine: d.Engine(), Version: d.Version(), Living: engine.Create{Owner: name}, Public: true,
		Log: d.Log(), request: o.find, reserve: func(ctx context.Context, h http.Header, n int64) error {
			x, err := o.find(h)
			if err != nil {
				return err
			}
			return d.Reserve(ctx, x.response, n)
		}})
	serverOf := func(*http.Request) *sdk.Server { return o.sdk }
	o.handler = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{
		SessionTimeout:             engine.DefaultIdle,
		DisableLocalhostProtection: true, // httpd checks Host and Origin
	})
	d.owners[name] = o
	return o
}

func (d *door) serve(w *httpd.Response, r *http.Request) error {
	o := d.of(w.Key)
	if o == nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "mcp", Msg: "this server is shutting down"}
	}
	x := &request{response: w}
	for name, values := range r.URL.Query() {
		if name != "sandbox" || len(values) != 1 {
			return sandbox.Invalidf("query", "only one parameter is known here: sandbox=NAME")
		}
		x.named = values[0]
	}
	if r.Method == http.MethodPost {
		if r.ContentLength > maxMessage {
			return tooLarge(maxMessage)
		}
		body, err := d.ReadBody(w, r)
		defer body.Release()
		if err != nil {
			return err
		}
		if r.Header.Get(sessionHeader) == "" && (o.count() >= maxSessions || d.count() >= maxAllSessions) {
			return &sandbox.Error{Kind: sandbox.Busy, Op: "mcp", Msg: "too many sessions are open",
				Fix: "end sessions that are no longer needed: DELETE /mcp"}
		}
		small, err := x.message(body)
		if err != nil {
			return err
		}
		w.Steps(messageSteps)
		r.Body = io.NopCloser(bytes.NewReader(small))
	}
	// A call goes on when its client leaves. So its request is served until the call ends, and counts what it holds.
	// Only a revoked key ends it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() {
		if w.Revoked() {
			cancel(context.Cause(r.Context()))
		}
	})()
	r = r.WithContext(ctx)
	defer o.enter(x, r.Header)()
	o.handler.ServeHTTP(w, r)
	return nil
}

// message returns the message of a body for the SDK, which holds several copies of each, and the last one as long as
// the session. So it never gets the arguments of a tool; they stay here.
func (x *request) message(body *httpd.Body) (small []byte, err error) {
	var m struct {
		Version json.RawMessage `json:"jsonrpc,omitempty"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Meta      struct {
				Token json.RawMessage `json:"progressToken,omitempty"`
			} `json:"_meta,omitzero"`
		} `json:"params"`
	}
	text := bytes.TrimLeft(body.Data, " \t\r\n")
	switch {
	case len(body.Data) > maxMessage:
		return nil, tooLarge(maxMessage)
	case len(text) > 0 && text[0] == '[':
		return nil, sandbox.Invalidf("", "a batch of messages is not supported; send each message in its own request")
	}
	if err := body.CheckLiterals(); err != nil {
		return nil, err
	}
	if err := body.Hold(argumentCopies * int64(len(body.Data))); err != nil {
		return nil, err
	}
	if json.Unmarshal(text, &m) == nil && m.Method == "tools/call" {
		if len(m.Version)+len(m.ID)+len(m.Params.Name)+len(m.Params.Meta.Token) > maxSmall {
			return nil, tooLarge(maxSmall) // before they are encoded, which may take six times as many bytes
		}
		x.arguments, m.Params.Arguments = m.Params.Arguments, json.RawMessage("{}")
		if text, err = json.Marshal(m); err != nil {
			return nil, err
		}
	}
	body.Data = nil
	if len(text) > maxSmall {
		return nil, tooLarge(maxSmall)
	}
	return text, nil
}

func tooLarge(most int64) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Msg: "the message is over the limit of " + sandbox.FormatBytes(most)}
}

// count returns the number of open sessions.
func (s *Server) count() (n int) {
	for range s.sdk.Sessions() {
		n++
	}
	return n
}

// count returns the number of open sessions of all owners.
func (d *door) count() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.owners {
		n += o.count()
	}
	return n
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, o := range d.owners {
		o.Close()
	}
}
