package httpd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Defaults of a Config.
const (
	DefaultMaxBody        = 64 << 20
	DefaultMaxBodies      = 512 << 20
	DefaultMaxAnswers     = 512 << 20
	DefaultMaxConnections = 4096
	DefaultWriteTimeout   = 10 * time.Second
	DefaultMaxFile        = 2 << 30
)

// Limits of a connection, also against clients that drip their headers (slowloris).
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	receiveBuffer  = 256 << 10 // bytes of bodies of an HTTP/2 connection that handlers have not read
	maxFrame       = 16 << 10  // bytes of an HTTP/2 frame, which are held until it is complete; RFC 9113, section 4.2
)

// waits are the timeouts of a client besides WriteTimeout. Only tests change them.
type waits struct {
	body      time.Duration // how far a body may lag behind the least rate, and how long it may stall
	bodyTotal time.Duration // for a whole body
	answer    time.Duration // to wait for room for an answer; its run keeps its slot
}

var defaultWaits = waits{body: 10 * time.Second, bodyTotal: 2 * time.Minute, answer: 10 * time.Second}

// Config configures a server. Only Engine is required.
type Config struct {
	Engine  *engine.Engine
	Version string   // of Fumehood, as capabilities and metrics report it
	Metrics *Metrics // nil is new ones, which count no runs unless they observe the engine

	Keys  *Keyring // nil: requests need no key, and CheckListen allows loopback only
	Hosts []string // our names in the Host header, besides localhost and loopback addresses
	// Domain, if not "", is the name below which the server has further names: api, sandbox, and one for each port of
	// each sandbox.
	Domain string

	MaxBody        int64 // bytes of one request body; 0 is DefaultMaxBody
	MaxFile        int64 // bytes of one file that is sent to a living sandbox; 0 is DefaultMaxFile
	MaxBodies      int64 // bytes of all bodies in memory, at most half of one client; 0 is DefaultMaxBodies
	MaxAnswers     int64 // bytes of all answers in memory, at most half of one client; 0 is DefaultMaxAnswers
	MaxConnections int   // concurrent connections, at most half from one address; 0 is DefaultMaxConnections
	// how long a client may take nothing of its answer, or lag behind 64 KiB/s; 0 is DefaultWriteTimeout
	WriteTimeout time.Duration

	Log    *slog.Logger // nil discards
	Access *slog.Logger // has a line for each request; nil is Log
}

// Server has the parts that the APIs at one address share. It owns no goroutine and no listener; the http.Server of
// HTTPServer does.
type Server struct {
	config   Config
	log      *slog.Logger
	access   *slog.Logger
	main     *paths
	sides    []*paths
	guards   []func(*http.Request) error
	metrics  *Metrics
	bodies   *room.Room
	answers  *room.Room
	shares   *shares
	waits    waits
	draining atomic.Bool
	stopping context.Context
	stop     context.CancelFunc
}

// New returns a server without routes.
func New(config Config) (*Server, error) {
	if config.Engine == nil {
		return nil, sandbox.Invalidf("engine", "is missing")
	}
	if config.MaxBody < 0 || config.MaxFile < 0 || config.MaxBodies < 0 || config.MaxAnswers < 0 ||
		config.MaxConnections < 0 || config.WriteTimeout < 0 {
		return nil, sandbox.Invalidf("http", "limits must be positive")
	}
	orDefault(&config.MaxBody, DefaultMaxBody)
	orDefault(&config.MaxFile, DefaultMaxFile)
	orDefault(&config.MaxBodies, max(DefaultMaxBodies, 2*config.MaxBody))
	orDefault(&config.MaxAnswers, DefaultMaxAnswers)
	orDefault(&config.MaxConnections, DefaultMaxConnections)
	orDefault(&config.WriteTimeout, DefaultWriteTimeout)
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	orDefault(&config.Access, config.Log)
	s := &Server{config: config, log: config.Log, access: config.Access, main: newPaths(), waits: defaultWaits,
		bodies:  room.Halves(config.MaxBodies),
		answers: room.Halves(config.MaxAnswers), shares: newShares()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	if s.metrics = config.Metrics; s.metrics == nil {
		s.metrics = NewMetrics(config.Version)
	}
	s.metrics.registry.MustRegister(engineCollector{config.Engine}, keyCollector{config.Keys}, workOf(s.shares),
		correctedOf(s.shares))
	return s, nil
}

// Guard adds a check of each request that has passed those of the host, the origin and the key. The server must not be
// serving yet.
func (s *Server) Guard(check func(*http.Request) error) { s.guards = append(s.guards, check) }

// Engine returns the engine.
func (s *Server) Engine() *engine.Engine { return s.config.Engine }

// Domain returns the name below which ports of sandboxes have names, or "".
func (s *Server) Domain() string { return s.config.Domain }

// Version returns the version of Fumehood.
func (s *Server) Version() string { return s.config.Version }

// Log returns the server's log.
func (s *Server) Log() *slog.Logger { return s.log }

// MaxBody returns the limit of a request body, in bytes.
func (s *Server) MaxBody() int64 { return s.config.MaxBody }

// MaxFile returns the limit of a file that is sent to a living sandbox, in bytes.
func (s *Server) MaxFile() int64 { return s.config.MaxFile }

// LostClient counts a client that took its answer too slowly.
func (s *Server) LostClient() { s.metrics.slowReaders.Inc() }

// Held returns the bytes of bodies and of answers in memory.
func (s *Server) Held() (bodies, answers int64) { return s.bodies.Held(), s.answers.Held() }

// SetWaits changes how long a body may lag behind the least rate, and how long a run waits for room for its answer.
func (s *Server) SetWaits(body, answer time.Duration) { s.waits.body, s.waits.answer = body, answer }

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Drain makes /readyz fail, so that load balancers send nothing more. To shut down, call it first, then the engine's
// Drain, then the http.Server's Shutdown.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() || s.config.Engine.Draining() }

// Handler returns the handler of all routes.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.handle) }

// HTTPServer returns an http.Server for all routes, with every timeout and limit set. It speaks HTTP/1.1, and HTTP/2 to
// clients of a TLS listener that agree on "h2" (RFC 7301). Each request of HTTP/2 counts as a connection.
//
// A run may be silent for long, so there is no overall write timeout; each write has its own (see Response). The read
// timeout is for requests whose body is not read; a run sets its own and lifts it after the body.
func (s *Server) HTTPServer() *http.Server {
	connections := newConnections(s.config.MaxConnections, s.metrics.overConnections.Inc)
	connections.shares, connections.idleAfter = s.shares, idleTimeout
	server := s.bounded()
	server.Handler = s.Handler()
	server.ConnState, server.ConnContext = connections.state, connections.context
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	connections.serveHTTP2(server, s.bounded())
	server.RegisterOnShutdown(s.stop)
	return server
}

// bounded returns an http.Server with every timeout and limit set.
func (s *Server) bounded() *http.Server {
	return &http.Server{
		DisableGeneralOptionsHandler: true, // or net/http answers OPTIONS *, which nothing counts
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  s.waits.bodyTotal,
		IdleTimeout:                  -1, // see idleAfter
		MaxHeaderBytes:               maxHeaderBytes,
		HTTP2: &http.HTTP2Config{WriteByteTimeout: s.config.WriteTimeout,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReadFrameSize: maxFrame},
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.Background() },
	}
}

// LocalServer is HTTPServer for a socket that only the server's own user can reach: its requests need no key, and use
// the owner "".
func (s *Server) LocalServer() *http.Server {
	server := s.HTTPServer()
	inner := server.ConnContext
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(inner(ctx, conn), local{}, true)
	}
	return server
}

// local is the context key of connections that need no API key.
type local struct{}
