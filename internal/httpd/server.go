package httpd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Defaults of a Config.
const (
	DefaultMaxBody        = 64 << 20
	DefaultMaxBodies      = 512 << 20
	DefaultMaxAnswers     = 512 << 20
	DefaultMaxConnections = 4096
	DefaultWriteTimeout   = 10 * time.Second
)

// Bounds of a connection. A client that drips its headers (slowloris) holds one connection, and not for long.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
)

// waits are how long a client is waited for, beside WriteTimeout. They are constants but for tests.
type waits struct {
	body      time.Duration // how much a body may be behind the least rate, also how long nothing of it may come
	bodyTotal time.Duration // for a whole body, however fast
	answer    time.Duration // for room for an answer, in which its run holds the slot
}

var defaultWaits = waits{body: 10 * time.Second, bodyTotal: 2 * time.Minute, answer: 10 * time.Second}

// Config says what a server works with. Engine is the one field that must be set.
type Config struct {
	Engine  *engine.Engine
	Version string // of Glovebox, as capabilities and metrics report it

	Keys  []Key    // none: requests need no key, and CheckListen allows loopback only
	Hosts []string // names in the Host header that are ours, besides localhost and loopback addresses

	MaxBody        int64         // bytes of one request body; 0 is DefaultMaxBody
	MaxBodies      int64         // bytes of all bodies that are held at the same time, half of them one client's; 0 is DefaultMaxBodies
	MaxAnswers     int64         // bytes of all answers that are on their way, half of them one client's; 0 is DefaultMaxAnswers
	MaxConnections int           // connections at the same time, half of them from one address; 0 is DefaultMaxConnections
	WriteTimeout   time.Duration // how long a client may take nothing of its answer, or be behind 64 KiB/s; 0 is DefaultWriteTimeout

	Log *slog.Logger // nil discards
}

// Server is what every API that is served at one address shares. It owns no goroutine and no listener: HTTPServer gives an
// http.Server that does.
type Server struct {
	config   Config
	log      *slog.Logger
	mux      *http.ServeMux
	open     map[string]bool // patterns that need no key
	metrics  *metrics
	bodies   *room
	answers  *room
	waits    waits
	draining atomic.Bool
}

// Route is one method of one path, and what serves it. What a handler returns is answered with a problem.
type Route struct {
	Method, Path string
	Handler      func(*Response, *http.Request) error
	Open         bool // needs no key
}

// New returns a server without a route.
func New(config Config) (*Server, error) {
	if config.Engine == nil {
		return nil, sandbox.Invalidf("engine", "is missing")
	}
	if config.MaxBody < 0 || config.MaxBodies < 0 || config.MaxAnswers < 0 || config.MaxConnections < 0 || config.WriteTimeout < 0 {
		return nil, sandbox.Invalidf("http", "bounds must be positive")
	}
	orDefault(&config.MaxBody, DefaultMaxBody)
	orDefault(&config.MaxBodies, max(DefaultMaxBodies, 2*config.MaxBody))
	orDefault(&config.MaxAnswers, DefaultMaxAnswers)
	orDefault(&config.MaxConnections, DefaultMaxConnections)
	orDefault(&config.WriteTimeout, DefaultWriteTimeout)
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: config, log: config.Log, mux: http.NewServeMux(), open: map[string]bool{}, waits: defaultWaits,
		bodies: newRoom(config.MaxBodies), answers: newRoom(config.MaxAnswers)}
	s.metrics = newMetrics(config.Engine, config.Version)
	return s, nil
}

// Handle adds routes. It is called before the server serves.
func (s *Server) Handle(routes ...Route) {
	for _, route := range routes {
		pattern := route.Method + " " + route.Path
		s.open[pattern] = route.Open
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out := w.(*Response)
			if err := route.Handler(out, r); err != nil {
				s.fail(out, err)
			}
		})
	}
}

// Engine is where runs are carried out.
func (s *Server) Engine() *engine.Engine { return s.config.Engine }

// Version is that of Glovebox.
func (s *Server) Version() string { return s.config.Version }

// MaxBody is the most bytes of one request body.
func (s *Server) MaxBody() int64 { return s.config.MaxBody }

// LostClient counts a client that took its answer too slowly.
func (s *Server) LostClient() { s.metrics.slowReaders.Inc() }

// Held is how many bytes of bodies and of answers are held.
func (s *Server) Held() (bodies, answers int64) { return s.bodies.holds(), s.answers.holds() }

// SetWaits changes how long a body may be behind the least rate, and how long a run waits for room for its answer, with its slot.
func (s *Server) SetWaits(body, answer time.Duration) { s.waits.body, s.waits.answer = body, answer }

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Drain makes /readyz say that this server is going, so that balancers send nothing more. Whoever shuts down calls it first,
// then the engine's Drain, then the http.Server's Shutdown.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining says whether this server is going.
func (s *Server) Draining() bool { return s.draining.Load() || s.config.Engine.Stats().Draining }

// Handler returns the handler of all routes.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.handle) }

// HTTPServer returns an http.Server for all routes with every time-out and bound set. It speaks HTTP/1 only: what multiplexes
// requests on one connection would undo the bound on connections.
//
// There is no overall write time-out, as a run may be silent for long; each write has its own (see response). The read
// time-out is for requests whose body nobody reads; a run sets its own and lifts it once the body is there.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	connections := newConnections(s.config.MaxConnections, s.metrics.overConnections.Inc)
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.waits.bodyTotal,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		ConnState:         connections.state,
		ConnContext:       connections.context,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.Background() },
	}
}
