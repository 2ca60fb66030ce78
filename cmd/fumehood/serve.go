package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/dashboard"
	"github.com/fumehood-dev/fumehood/internal/e2bapi"
	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/internal/host/systemd"
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/mcp"
	"github.com/fumehood-dev/fumehood/internal/openaiapi"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	defaultListen = "127.0.0.1:7070"
	defaultDrain  = time.Minute
	defaultWarm   = 4               // hides the creation of sandboxes from sequential callers; each costs some 4 MiB
	shutdownTime  = 5 * time.Second // for answers in progress after all runs have ended
)

type serveFlags struct {
	config engine.Config // the fields that are flags
	gates  egress.Limits

	door         doorFlags
	images       []string // patterns of images that requests may name
	warmImages   []string
	pull         bool // fetch those that are missing
	templates    sizeValue
	drainTimeout time.Duration
	living       livingFlags

	packages   packageFlags
	noPackages bool
	checking   checkFlags
	logs       logFlags
	network    ceilingFlags

	set *pflag.FlagSet // all flags, as they are set
}

type livingFlags struct {
	stateDir string
	private  bool // for one program: ends with standard input, and keeps no state
	maxFile  sizeValue
	volumes  serveVolumeFlags
}

func (f *serveFlags) addLiving(flags *pflag.FlagSet) {
	flags.StringVar(&f.living.stateDir, "state-dir", "",
		"`DIR` of their records and logs (default /var/lib or ~/.local/state)")
	flags.IntVar(&f.config.Living.Most, "sandboxes", engine.DefaultSandboxes,
		fmt.Sprintf("living sandboxes at once (default %d)", engine.DefaultSandboxes))
	flags.IntVar(&f.config.Living.OwnerMost, "owner-sandboxes", 0,
		"living sandboxes of one API key (default half, with several keys)")
	f.living.maxFile = httpd.DefaultMaxFile
	flags.Var(&f.living.maxFile, "max-file",
		"largest upload to a living sandbox (default "+f.living.maxFile.String()+")")
	logs := (*sizeValue)(&f.config.Living.LogBytes)
	*logs = eventlog.DefaultQuota
	flags.Var(logs, "log-space", "disk for logs of ended runs; drops the oldest (default "+logs.String()+")")
	flags.BoolVar(&f.living.private, "private", false, "end when stdin does, with all sandboxes; keep no state")
}

type sizeValue int64

func (v *sizeValue) Type() string   { return "SIZE" }
func (v *sizeValue) String() string { return sandbox.FormatBytes(int64(*v)) }

func (v *sizeValue) Set(text string) error {
	n, err := sandbox.ParseBytes(text)
	if err == nil && n <= 0 {
		err = sandbox.Invalidf("size", "must be positive")
	}
	if err == nil {
		*v = sizeValue(n)
	}
	return err
}

const longServe = `Serve serves the HTTP API, which /openapi.json describes. An address other than loopback requires
API keys; the commands of this user reach the server by a socket in the run folder, without a key.
The first interrupt or SIGTERM refuses new runs and waits for active ones; the second ends them.

With --backend or --allow-backend, requests may name only those backends. The default is --backend,
else the first --allow-backend, or the strongest of them if other machines can reach the server.
With --allow-image, or if other machines can reach the server, requests may name only images that
match it (* and ? are wildcards).

A request may name limits up to --max-...; fumehood doctor shows them for this host. A maximum
below a built-in default lowers it; a named default over a named maximum is an error.

A request may open a network up to --max-network, to all public addresses. With --network-allow only
to what it lists: names, addresses, and public. Private addresses, those of this host and of
metadata services are only open if it lists them, as in --network-allow public,10.1.0.0/16.`

func (a *app) newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API",
		Long:  longServe,
		Example: `  fumehood serve & curl -s localhost:7070/v1/run -d '{"language":"python","code":"print(6*7)"}'
  fumehood serve --listen unix:/run/user/1000/fumehood.sock
  fumehood keys create alice --file keys
  fumehood serve --listen 0.0.0.0:7070 --api-key-file keys --max-timeout 5m --max-memory 2GiB`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"slots", "slots-per-key", "queue-per-key", "sandboxes", "owner-sandboxes",
				"connections", "connections-per-key", "max-connections"} {
				if n, err := cmd.Flags().GetInt(flag); err == nil && cmd.Flags().Changed(flag) && n < 1 {
					return sandbox.Invalidf("--"+flag, "must be at least 1")
				}
			}
			if a.line.reread != nil {
				return a.line.reread(cmd, &f)
			}
			if f.door.checkConfig {
				return a.checkConfig(cmd, &f)
			}
			f.set = cmd.Flags()
			return a.serve(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	f.door.add(flags)
	flags.StringVar(&f.config.Default, "backend", "", "default backend `NAME` ("+defaultBackend+
		"; auto if others can reach us)")
	flags.StringSliceVar(&f.config.Allowed, "allow-backend", nil, "backend `NAME` that requests may name (repeatable)")
	flags.Var(&f.templates, "templates", "let requests build templates with layers of up to `SIZE` (default none)")
	flags.StringSliceVar(&f.images, "allow-image", nil, "`PATTERN` of images that requests may name (repeatable)")
	flags.BoolVar(&f.pull, "pull-images", false, "fetch missing images that --allow-image allows")
	flags.IntVar(&f.config.Slots, "slots", 0, "concurrent runs (default twice the CPUs, at least 4)")
	flags.IntVar(&f.config.OwnerSlots, "slots-per-key", 0,
		"concurrent runs of one API key (default half, with several keys)")
	flags.IntVar(&f.config.Warm, "warm", defaultWarm,
		fmt.Sprintf("sandboxes kept ready for each kind of request; 0 is none (default %d)", defaultWarm))
	flags.StringSliceVar(&f.warmImages, "warm-image", nil, "`IMAGE` whose sandboxes are kept ready (repeatable)")
	flags.IntVar(&f.config.Queue, "queue", engine.DefaultQueue,
		fmt.Sprintf("runs that may wait for a slot; 0 is none (default %d)", engine.DefaultQueue))
	flags.IntVar(&f.config.OwnerQueue, "queue-per-key", 0,
		"most waiting runs of one API key (default half, with several keys)")
	flags.IntVar(&f.gates.Connections, "connections", 0,
		"network connections of all sandboxes (default by the open files)")
	flags.IntVar(&f.gates.OwnerConnections, "connections-per-key", 0,
		"network connections of one API key (default half of --connections)")
	flags.IntVar(&f.gates.SandboxConnections, "max-connections", 0,
		"largest max_connections of a sandbox (default --connections-per-key)")
	flags.DurationVar(&f.config.QueueTimeout, "queue-timeout", engine.DefaultQueueTimeout,
		fmt.Sprintf("longest wait for a slot (default %s)", engine.DefaultQueueTimeout))
	flags.DurationVar(&f.drainTimeout, "drain-timeout", defaultDrain,
		fmt.Sprintf("longest wait for runs after the first interrupt (default %s)", defaultDrain))
	settings.AddLimits(flags, &f.config.Defaults)
	settings.AddMaxima(flags, &f.config.Max)
	allowFlag(cmd, &f.config.AllowUnenforced, allowUsage)
	f.addLiving(flags)
	addFreedoms(flags, &f.config.NestedFilters, &f.config.Terminals)
	f.packages.add(flags)
	flags.BoolVar(&f.noPackages, "no-packages", false, "install no packages for requests")
	f.checking.add(cmd)
	f.network.add(cmd)
	f.logs.add(cmd)
	f.living.volumes.add(flags)
	completions(cmd, "backend", "native", "gvisor", "docker", "podman", "auto")
	return cmd
}

// addFaces adds the APIs of a server. The caller calls done after the server has ended.
func (a *app) addFaces(server *httpd.Server, f *serveFlags, e *openedEngine, kept *state) (done func(), err error) {
	tokens, err := kept.tokens()
	if err != nil {
		return nil, err
	}
	stores, err := a.openStores(f, e)
	if err != nil {
		return nil, err
	}
	httpapi.Add(server, stores)
	dashboard.Add(server)
	openaiapi.Add(server)
	endMCP := mcp.Add(server)
	endE2B := e2bapi.Add(server, tokens)
	return func() {
		endE2B()
		endMCP()
	}, nil
}

func (a *app) serve(ctx context.Context, f *serveFlags) (err error) {
	defer a.noteHangups()()
	stopLog, err := a.startLog(&f.logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopLog()) }()
	keys, err := a.openKeys(f.door.keyFile)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return err
	}
	return a.serveWith(ctx, f, keys)
}

// check refuses flags that contradict each other.
func (f *serveFlags) check() error {
	if err := f.door.check(); err != nil {
		return err
	}
	if f.living.private && len(f.door.acme.domains) > 0 {
		return sandbox.Invalidf("--acme-domain", "needs the state folder, which --private does not keep")
	}
	if _, err := f.checking.checks(); err != nil {
		return err
	}
	return f.logs.check()
}

// serveWith serves with keys until ctx ends or a listener fails.
func (a *app) serveWith(ctx context.Context, f *serveFlags, keys *servedKeys) (err error) {
	listener, err := a.listen(ctx, f, keys.ring)
	if err != nil {
		return err
	}
	defer listener.Close()
	var kept *state
	if !f.living.private {
		if kept, err = a.openState(ctx, f.living.stateDir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kept.Close()) }()
	}
	secure, err := a.secure(listener, &f.door, kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, secure.stop()) }()
	if err := a.offerVolumes(f, kept); err != nil {
		return err
	}
	metrics := httpd.NewMetrics(versionOf())
	f.config.Observer = metrics
	e, err := a.openServing(ctx, f, keys, listener.Addr(), kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	host := capacity.Host()
	defer tendMemory(memoryLimit(host, e.Stats().Slots, f.gateLimits().Complete().Bytes))()
	server, err := httpd.New(httpd.Config{Engine: e.Engine, Version: versionOf(), Keys: keys.ring,
		Hosts: f.door.hosts, Domain: f.door.domain, Log: a.logger(), Access: a.serveLog.accessLog(),
		MaxFile: int64(f.living.maxFile), MaxBodies: roomOf(host), MaxAnswers: roomOf(host),
		MaxConnections: f.descriptors().clients, Metrics: metrics})
	if err != nil {
		return err
	}
	defer server.Measure()()
	removeFaces, err := a.addFaces(server, f, e, kept)
	if err != nil {
		return err
	}
	defer removeFaces()
	doors := []door{{server.HTTPServer(), secure}}
	if local := a.listenLocal(f, a.env().RunDir()); local != nil {
		defer local.Close()
		doors = append(doors, door{server.LocalServer(), local})
	}
	failed := make(chan error, len(doors))
	for _, d := range doors {
		go func() { failed <- d.server.Serve(d.listener) }() // until Shutdown or Close
		a.note(terminal.Plain, "listening on %s", d.url(&f.door))
	}
	manager := systemd.NewManager(a.LookupEnv)
	r := &reloader{app: a, flags: f, keys: keys, engine: e.Engine, addr: listener.Addr(), manager: manager,
		metrics: metrics}
	defer r.tend()()
	secure.obtain()
	a.tell(manager.Ready())
	select {
	case err := <-failed:
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "serve", Err: err}
	case <-a.programEnds(f):
		return closeDoors(doors)
	case <-ctx.Done():
	}
	a.tell(manager.Stopping())
	return a.drain(server, e.Engine, doors, f.drainTimeout)
}

// descriptors divides the descriptors of this process.
func (f *serveFlags) descriptors() descriptors { return descriptorsOf(capacity.Host(), f.boxes()) }

// boxes returns how many sandboxes, warm ones included, the server has at most.
func (f *serveFlags) boxes() int {
	slots := cmp.Or(f.config.Slots, engine.DefaultSlots())
	return f.config.Living.Most + 2*slots + engine.WarmBoxes(f.config.Warm) // one starts while another ends
}

// gateLimits returns the limits of all networks.
func (f *serveFlags) gateLimits() egress.Limits {
	limits := f.gates
	limits.Connections = cmp.Or(limits.Connections, f.descriptors().networks)
	return limits
}

// openServing opens the engine on the state, and checks that a backend works.
func (a *app) openServing(ctx context.Context, f *serveFlags, keys *servedKeys, addr net.Addr,
	kept *state) (*openedEngine, error) {
	config, err := a.servingConfig(f, keys, addr)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		config.Living.Store, config.Living.StateDir = kept.Store, kept.logs
	}
	e, err := a.openEngine(config)
	if err != nil {
		return nil, err
	}
	a.recover(ctx, e.backends)
	if kept != nil {
		if err := a.takeOver(ctx, e, kept); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	if err := a.checkBackends(ctx, e, config.Default); err != nil {
		return nil, err
	}
	if err := e.KeepWarm(ctx, f.warmImages); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	a.warnOfKernel(f, keys.ring.Keys(), addr)
	return e, nil
}

// servingConfig returns the configuration of the engine without its state.
func (a *app) servingConfig(f *serveFlags, keys *servedKeys, addr net.Addr) (config engine.Config, err error) {
	if config, err = f.limited(keys.ring.Keys(), addr); err != nil {
		return config, err
	}
	config.OwnerLimits = keys.ring.OwnerLimits
	config.Living.Ports, config.Gate = f.descriptors().ports, a.gate(f.gateLimits())
	config.Living.Processes = capacity.Processes()
	if config.Checks, err = f.checking.checks(); err != nil {
		return config, err
	}
	if !f.pull {
		a.containers.pull = pullNever
	}
	if !f.noPackages {
		f.packages.several = func() bool { return severalNames(keys.ring.Keys()) }
		config.Packages, err = a.packager(&f.packages)
	}
	return config, err
}

// checkBackends closes the engine with an error if no backend works, and warns if default requests would be rejected.
func (a *app) checkBackends(ctx context.Context, e *openedEngine, byDefault string) error {
	var failures []error
	probed := e.Probe(ctx)
	for _, p := range probed {
		if p.Err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", p.Backend, p.Err))
		}
	}
	if len(failures) == len(probed) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "serve", Fix: "fumehood doctor",
			Err: errors.Join(append(failures, e.Close())...)}
	}
	byDefault = cmp.Or(byDefault, probed[0].Backend)
	if i := slices.IndexFunc(probed, func(p engine.Probed) bool { return p.Backend == byDefault }); i >= 0 {
		a.warnOfDefault(probed[i])
	} else if _, ok := e.Choice(probed); !ok {
		a.warnOfDefault(e.ProbeDefault(ctx))
	}
	return nil
}

// limited returns the configuration of the engine with the limits of requests: those that a reload replaces.
func (f *serveFlags) limited(keys []httpd.Key, addr net.Addr) (config engine.Config, err error) {
	config = f.config
	bound(&config, keys)
	if config.Ceiling, err = f.network.ceiling(); err != nil {
		return config, err
	}
	return config, f.restrict(&config, addr)
}

// bound sets the maxima of one request, and the shares of one of several clients.
func bound(config *engine.Config, keys []httpd.Key) {
	slots := cmp.Or(config.Slots, engine.DefaultSlots())
	most := settings.Maxima(capacity.Host(), slots)
	for _, name := range sandbox.LimitNames {
		if config.Max.Get(name) == 0 { // never below a named default
			config.Max.Set(name, max(most.Get(name), config.Defaults.Get(name)))
		}
	}
	if severalNames(keys) {
		share := func(own *int, all int) { *own = cmp.Or(*own, (all+1)/2) }
		share(&config.OwnerSlots, slots)
		share(&config.OwnerQueue, config.Queue)
		share(&config.Living.OwnerMost, config.Living.Most)
	}
	if config.Queue == 0 {
		config.Queue = -1
	}
}

// reachable reports whether other machines can reach an address.
func reachable(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// restrict limits requests to the operator's backends and images: a named backend excludes weaker ones, and strangers
// must not read the images of a container engine.
func (f *serveFlags) restrict(config *engine.Config, addr net.Addr) (err error) {
	if f.pull && len(f.images) == 0 {
		return invalid("--pull-images", "clients could fill the disk", "name what they may fetch: --allow-image")
	}
	if f.images != nil || reachable(addr) { // an empty list offers none
		if config.Images, err = settings.Patterns("--allow-image", f.images); err != nil {
			return err
		}
	}
	if config.Default == engine.Auto && len(config.Allowed) > 0 {
		config.Allowed = append(slices.Clone(config.Allowed), engine.Auto) // it chooses from all backends
	}
	if reachable(addr) {
		config.Default = cmp.Or(config.Default, engine.Auto) // the strongest, as strangers may call
	}
	if len(config.Allowed) > 0 {
		config.Default = cmp.Or(config.Default, config.Allowed[0]) // the default must be allowed
	} else if config.Default != "" {
		config.Allowed = []string{config.Default}
	}
	return nil
}

// warnOfDefault warns if default requests would be rejected. Other requests may run, and a container engine may start
// later.
func (a *app) warnOfDefault(p engine.Probed) {
	why := cmp.Or(p.Err, p.Refusal)
	if why == nil {
		return
	}
	if lacks := sandbox.UnenforcedOf(why); len(lacks) > 0 {
		a.warn("%s rejects default requests, so /readyz answers 503: this host cannot enforce %s", p.Backend,
			inWords(namesOf(lacks)))
		a.say(terminal.Plain, "fix: fumehood serve --allow-unenforced %s, or \"allow_unenforced\" in each request",
			strings.Join(namesOf(lacks), ","))
		return
	}
	a.warn("default requests are rejected, so /readyz answers 503: %s", terminal.OneLine(textOf(why)))
}

// drain shuts the server down: it refuses new runs, waits for active ones until the timeout, and delivers answers.
func (a *app) drain(server *httpd.Server, e *engine.Engine, doors []door, timeout time.Duration) error {
	a.note(terminal.Plain, "draining: new runs are refused, %d are active; interrupt again to end them at once",
		e.Stats().Running)
	server.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := e.Drain(ctx); err != nil {
		a.warn("after %s there are still %d runs; they are canceled", timeout, e.Stats().Running)
		if err := e.Close(); err != nil {
			return err
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	var errs []error
	for _, d := range doors {
		if err := d.server.Shutdown(ctx); err != nil {
			errs = append(errs, d.server.Close())
		}
	}
	return errors.Join(errs...)
}
