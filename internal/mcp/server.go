package mcp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Config configures a server. Only Engine is required.
type Config struct {
	Engine  *engine.Engine
	Version string        // of Fumehood
	Living  engine.Create // creates each session's sandbox
	Ahead   bool          // makes the sandbox when the session begins, so that its first call is quick
	// over HTTP: hides the details of internal errors, which may name paths of the host, and keeps results small
	Public bool
	Log    *slog.Logger // nil discards

	// returns the HTTP request of the call with these headers; nil over stdio
	request func(http.Header) (*request, error)
	// takes room for so many bytes of a result, until the request with these headers is answered; nil over stdio
	reserve func(ctx context.Context, request http.Header, n int64) error
}

// maxMessage limits one message of a client, in bytes.
const maxMessage = 4 << 20

// maxSmall limits a message without the arguments of its tool.
const maxSmall = 16 << 10

// argumentCopies is how often the arguments of a tool are in memory during its call, besides as they came: decoded, and
// as the input of a program.
const argumentCopies = 2

// versions are those of the protocol that have sessions over every transport.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Server serves the tools to any number of sessions.
type Server struct {
	config Config
	sdk    *sdk.Server

	mu       sync.Mutex // guards all below
	sessions map[*sdk.ServerSession]*session
	closed   bool
	work     sync.WaitGroup // one for each session
}

// New returns a server without sessions.
func New(config Config) *Server {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: config, sessions: map[*sdk.ServerSession]*session{}}
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "fumehood", Title: "Fumehood", Version: config.Version},
		&sdk.ServerOptions{
			Instructions: instructions,
			// The list of tools never changes.
			Capabilities:              &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			SupportedProtocolVersions: versions,
			InitializedHandler: func(_ context.Context, r *sdk.InitializedRequest) {
				if config.Ahead {
					s.session(r.Session).ahead()
				}
			},
		})
	s.sdk.AddReceivingMiddleware(s.forget)
	network := reach(config.Living.Spec.Network)
	if config.Public { // a named one may have other rules
		network = " It has no network, unless it was created with one."
	}
	for _, t := range tools(config.Living.Spec, network) {
		s.addTool(t)
	}
	return s
}

func (s *Server) addTool(t tool) {
	s.sdk.AddTool(&t.Tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return s.call(ctx, t, r), nil
	})
}

// forget removes what the SDK would keep of a client for as long as its session, and this server does not use. It keeps
// the name of the client.
func (s *Server) forget(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		switch r := r.(type) {
		case *sdk.ServerRequest[*sdk.InitializeParams]:
			p := r.Params
			if p == nil {
				break
			}
			if p.ClientInfo != nil {
				s.session(r.Session).introduce(p.ClientInfo.Name)
			}
			*p = sdk.InitializeParams{ProtocolVersion: p.ProtocolVersion, Capabilities: &sdk.ClientCapabilities{}}
			if !slices.Contains(versions, p.ProtocolVersion) {
				p.ProtocolVersion = ""
			}
		case *sdk.InitializedRequest:
			if r.Params != nil {
				*r.Params = sdk.InitializedParams{}
			}
		}
		return next(ctx, method, r)
	}
}

// session returns the session of a session of the SDK. It is closed if the server is.
func (s *Server) session(of *sdk.ServerSession) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[of]; x != nil {
		return x
	}
	x := newSession(s)
	if s.closed {
		x.close()
		return x
	}
	s.sessions[of] = x
	s.work.Go(func() {
		_ = of.Wait() // the client may end it in any way
		s.mu.Lock()
		delete(s.sessions, of)
		s.mu.Unlock()
		x.close()
	})
	return x
}

// Stdio serves one session over newline-delimited JSON, until the client closes in or ctx ends.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	return s.Run(ctx, &sdk.IOTransport{Reader: in, Writer: keptOpen{out}})
}

// Run serves one session until it or ctx ends.
func (s *Server) Run(ctx context.Context, over sdk.Transport) error {
	err := s.sdk.Run(ctx, over)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "mcp", Err: err}
	}
	return nil
}

// keptOpen is a writer that its user may not close.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// Close ends all sessions and their sandboxes.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for of := range s.sdk.Sessions() {
		_ = of.Close() // the client may be gone
	}
	s.work.Wait()
}

// leaveTimeout limits how long the end of a session of a bridge may take.
const leaveTimeout = 5 * time.Second

// startTimeout limits how long a session's first call waits for its sandbox.
const startTimeout = time.Minute
