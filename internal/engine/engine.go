package engine

import (
	"context"
	"io"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Defaults of a Config.
const (
	DefaultQueue        = 256
	DefaultQueueTimeout = 30 * time.Second

	slotsPerCPU  = 2 // programs also wait for files and each other; one per CPU would leave CPUs idle
	defaultSlots = 4 // the least default of Slots
)

// Config configures an engine. Only Backends is required.
type Config struct {
	// Backends are those that runs may name. The caller closes them, after the engine's Close.
	Backends []sandbox.Backend
	// Default names the default backend; "" is the first of Backends, Auto the strongest that works here.
	Default string
	// backends that runs may name besides Default; nil is all. Auto stands for its choice of all backends. If it is the
	// Default but not in the list, it chooses from the list
	Allowed   []string
	Images    func(reference string) bool // reports whether runs may name an image; nil is all
	Languages []sandbox.Language
	// Tool opens a program of ours for sandboxes, by the name in sandbox.Compile; nil is none.
	Tool func(name string) (io.ReadCloser, error)

	Slots        int           // concurrent runs; 0 is twice the CPUs, at least 4
	Queue        int           // most runs that wait for a slot; 0 is DefaultQueue, negative is none
	QueueTimeout time.Duration // longest wait for a slot; 0 is DefaultQueueTimeout
	Shares
	Warm int // boxes kept ready for each spec in use; 0 is none
	// OwnerLimits returns the limits of an owner. It is called for each request. nil: they are those of all.
	OwnerLimits func(owner string) OwnerLimits

	Defaults sandbox.Limits // limits of a run that names none; a zero field is that of sandbox.DefaultLimits
	// AllowUnenforced lists waivers that apply to every run.
	AllowUnenforced []string
	Powers

	Living LivingConfig

	Gate sandbox.Gate // opens networks; nil is none
	// Ceiling bounds the networks of requests; nil is no bound. Installers of packages are not bound.
	Ceiling *sandbox.NetworkCeiling
	Checks  Checks

	Packages sandbox.Packager // finds and installs packages; nil is none
	Volumes  VolumeConfig

	// highest limits that a run may name; a zero field is no maximum. It lowers sandbox.DefaultLimits, but not Defaults
	Max sandbox.Limits

	// DefaultEnv is the base environment, under that of languages, specs and requests; nil is sandbox.DefaultEnv.
	DefaultEnv []string

	Observer Observer     // receives what happens; may be nil
	Log      *slog.Logger // nil discards
}

// Shares bounds what one owner of runs may take.
type Shares struct {
	OwnerSlots int // most slots of one owner; 0 is all
	OwnerQueue int // most waiting runs of one owner; 0 is all
}

// Powers applies those of sandbox.Spec to every run.
type Powers struct {
	NestedFilters bool
	Terminals     bool
}

// Auto as a backend's name chooses the strongest backend that works here.
const Auto = "auto"

// OneShot requests a run in a new sandbox, which ends with the run.
type OneShot struct {
	// whose share of slots, queue and warm boxes it takes: over HTTP, the name of the API key; "" is no one's
	Owner   string
	ID      sandbox.ID      // of the run; "" is a new one
	Backend string          // "" is the engine's default, Auto the strongest that works here
	Spec    sandbox.Spec    // zero fields get the engine's defaults; the engine sets ID
	Request sandbox.Request // Timeout, if set, replaces Spec.Limits.Timeout

	// Deliver, if set, receives the result while the run still holds its slot, if it got one. So results that wait for
	// memory limit new runs. The sandbox is closed or closing by then, and no timeout counts. Deliver must return when
	// its client is gone. It may modify the result. Run returns its error.
	Deliver func(*sandbox.Result) error

	// Changes, if set, receives what a run that succeeded has changed in the writable root of its sandbox, whose
	// processes have ended by then: an uncompressed layer, hostile. Run returns its error.
	Changes func(layer io.Reader) error

	// WithoutStart makes a sandbox in which the start command of its image does not run.
	WithoutStart bool

	installs bool // a step of an installation: its network is that of the index of the operator or of the root
	indexed  bool // of the operator
}

// Engine admits, creates, executes and closes sandboxes. Its methods are safe for concurrent use.
type Engine struct {
	config    Config
	rules     atomic.Pointer[plan.Rules] // of requests without an owner
	log       *slog.Logger
	admission *admission
	checking  checkTurns // of requests with much text to check, which needs a CPU, before they have a slot
	counts    counts
	auto      autoChoice
	closers   closers
	pool      pool
	surveys   surveys

	stop     context.Context // Close cancels it, and with it all runs
	stopRuns context.CancelFunc
	runs     sync.WaitGroup // Run calls in progress. admission guards it: none is added while draining

	boxes atomic.Int64 // that exist, or are being made

	living  *table
	state   state
	endings goroutines // of sandboxes that ended by themselves
}

// New returns an engine. It is cheap: it probes and starts nothing. Errors are Invalid: no backend, two of one name, an
// unknown default, or limits out of range.
func New(config Config) (*Engine, error) {
	if err := checkConfig(&config); err != nil {
		return nil, err
	}
	languages, err := plan.NewLanguages(config.Languages)
	if err != nil {
		return nil, err
	}
	if config.Slots == 0 {
		config.Slots = DefaultSlots()
	}
	switch {
	case config.Queue == 0:
		config.Queue = DefaultQueue
	case config.Queue < 0:
		config.Queue = 0
	}
	if config.QueueTimeout == 0 {
		config.QueueTimeout = DefaultQueueTimeout
	}
	if config.Living.Ports == 0 {
		config.Living.Ports = DefaultPorts
	}
	if config.Living.Reports == 0 {
		config.Living.Reports = DefaultReports
	}
	if config.Living.Runs == 0 {
		config.Living.Runs = DefaultRuns
	}
	if config.Living.LogBytes == 0 {
		config.Living.LogBytes = eventlog.DefaultQuota
	}
	if config.DefaultEnv == nil {
		config.DefaultEnv = sandbox.DefaultEnv
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		config:    config,
		log:       config.Log,
		admission: newAdmission(config.Slots, config.Queue, config.QueueTimeout),
		// the queue of checks has no bound: the wait for a slot has one
		checking: checkTurns{long: newAdmission(max(1, runtime.GOMAXPROCS(0)/2), math.MaxInt, config.QueueTimeout),
			brief: newAdmission(max(1, runtime.GOMAXPROCS(0)/2), math.MaxInt, config.QueueTimeout)},
		living: newTable(&config.Living),
		state:  state{dir: config.Living.StateDir},
	}
	e.counts.totals = Stats{Ended: map[sandbox.Status]uint64{}, Refused: map[sandbox.Kind]uint64{}}
	e.rules.Store(&plan.Rules{Languages: languages, Defaults: config.Defaults, Max: config.Max,
		AllowUnenforced: config.AllowUnenforced,
		NestedFilters:   config.NestedFilters, Terminals: config.Terminals, DefaultEnv: config.DefaultEnv,
		Images: config.Images, Network: networkRules(config.Gate), Ceiling: config.Ceiling,
		VolumeDir: config.Volumes.Dir})
	e.living.making = newAdmission(config.Slots, math.MaxInt, createTimeout)
	e.living.closing = newAdmission(config.Slots, math.MaxInt, createTimeout)
	e.surveys.turns = room.New(math.MaxInt64, 1)
	e.setShares(&config)
	e.closers.tokens = make(chan struct{}, config.Slots)
	e.stop, e.stopRuns = context.WithCancel(context.Background())
	e.pool = pool{engine: e, size: config.Warm, shelves: map[string]*shelf{}}
	return e, nil
}

// DefaultSlots returns the default of Config.Slots.
func DefaultSlots() int { return max(slotsPerCPU*runtime.NumCPU(), defaultSlots) }

func checkConfig(config *Config) error {
	if len(config.Backends) == 0 {
		return sandbox.Invalidf("backends", "there are none")
	}
	names := map[string]bool{Auto: true, "": true}
	for _, b := range config.Backends {
		if b.Name() != "" && names[b.Name()] {
			return sandbox.Invalidf("backends", "two are named %q", b.Name())
		}
		names[b.Name()] = true
	}
	if !names[config.Default] {
		return unknownBackend(config.Default, config.Backends)
	}
	for _, name := range config.Allowed {
		if !names[name] {
			return unknownBackend(name, config.Backends)
		}
	}
	if err := plan.CheckWaivers(config.AllowUnenforced); err != nil {
		return err
	}
	if config.Warm < 0 || config.Warm > maxWarm {
		return sandbox.Invalidf("warm", "must be from 0 to %d", maxWarm)
	}
	if config.QueueTimeout < 0 {
		return sandbox.Invalidf("queue timeout", "must be positive")
	}
	if _, err := config.Checks.modeOf(config.Checks.Mode); err != nil {
		return err
	}
	if err := checkLimits(config); err != nil {
		return err
	}
	return plan.CheckEnv("default environment", config.DefaultEnv)
}

// checkLimits checks the fields that SetLimits replaces, and completes Defaults.
func checkLimits(config *Config) error {
	if config.Slots < 0 || config.OwnerSlots < 0 || config.OwnerQueue < 0 {
		return sandbox.Invalidf("slots", "slots and an owner's share must be positive")
	}
	for _, l := range []sandbox.Limits{config.Defaults, config.Max} {
		if err := l.Check(); err != nil {
			return err
		}
	}
	usual := sandbox.DefaultLimits
	for _, name := range sandbox.LimitNames {
		most, asked := config.Max.Get(name), config.Defaults.Get(name)
		if most != 0 && asked > most {
			return sandbox.Invalidf("limits."+string(name), "the default of %s is over the maximum of %s",
				sandbox.FormatLimit(name, asked), sandbox.FormatLimit(name, most))
		}
		if most != 0 {
			usual.Set(name, min(most, usual.Get(name)))
		}
	}
	config.Defaults = config.Defaults.OrDefault(usual)
	return (&plan.Rules{Max: config.Max}).CheckDisk(config.Defaults)
}

// Drain refuses new runs and sandboxes as Unavailable. Running and queued runs go on. It returns nil once all have
// ended and their boxes are closed, or ctx's error if that comes first; Close then cancels the rest. Background runs in
// living sandboxes outlive it.
func (e *Engine) Drain(ctx context.Context) error {
	e.admission.drain()
	done := make(chan struct{})
	go func() { // ends with the last run; Close cancels them
		defer close(done)
		e.runs.Wait()
		e.pool.close()
		e.closers.wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close refuses new runs, cancels all others and waits until their boxes are closed. It leaves living sandboxes to the
// next engine if there is a store and a state folder, and ends them otherwise. A second call does nothing.
func (e *Engine) Close() error {
	e.admission.drain()
	e.stopRuns()
	err := e.closeLiving()
	e.endings.Wait()
	e.runs.Wait()
	e.pool.close()
	e.closers.wait()
	return err
}

// Languages returns the languages in the order of Config.
func (e *Engine) Languages() []sandbox.Language { return e.config.Languages }

// Language finds a language by its name or an alias, ignoring case. An unknown one is an Invalid error that lists the
// supported ones.
func (e *Engine) Language(name string) (sandbox.Language, error) {
	return e.baseRules().Languages.Find(name)
}

// LanguageOf finds a language by the extension of a file's name.
func (e *Engine) LanguageOf(fileName string) (sandbox.Language, bool) {
	return e.baseRules().Languages.ByExtension(fileName)
}
