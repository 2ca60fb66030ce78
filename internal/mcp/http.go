package mcp

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxSessions limits the sessions of one owner. Each is ended by its client, or when it is idle.
const maxSessions = 1000

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
}

// Add adds /mcp: streamable HTTP, with one living sandbox per session. The server must not be serving yet. The returned
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
	o := &owner{Server: New(Config{Engine: d.Engine(), Version: d.Version(), Living: engine.Create{Owner: name},
		Public: true, Log: d.Log()})}
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
	if r.Method == http.MethodPost {
		if r.ContentLength > maxMessage {
			return tooLarge()
		}
		body, err := d.ReadBody(w, r)
		defer body.Release()
		if err != nil {
			return err
		}
		if len(body.Data) > maxMessage {
			return tooLarge()
		}
		r.Body = io.NopCloser(bytes.NewReader(body.Data))
		if r.Header.Get(sessionHeader) == "" && o.count() >= maxSessions {
			return &sandbox.Error{Kind: sandbox.Busy, Op: "mcp", Msg: "too many sessions are open",
				Fix: "end sessions that are no longer needed: DELETE /mcp"}
		}
	}
	o.handler.ServeHTTP(w, r)
	return nil
}

func tooLarge() error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Msg: "the message is over the limit of " +
		sandbox.FormatBytes(maxMessage)}
}

// count returns the number of open sessions.
func (s *Server) count() (n int) {
	for range s.sdk.Sessions() {
		n++
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
