package engine

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Defaults of a Config.
const (
	DefaultQueue        = 256
	DefaultQueueTimeout = 30 * time.Second

	slotsPerCPU  = 2 // programs wait for files and for each other, so one for each CPU would leave CPUs idle
	defaultSlots = 4 // the least that is chosen where Slots says nothing
)

// Config says what an engine works with. Backends is the one field that must be set.
type Config struct {
	// Backends are those that runs may name. The engine never closes them: whoever made them does, after Close.
	Backends []sandbox.Backend
	// Default names the backend of a run that names none; "" is the first of Backends, Auto the strongest that works here.
	Default   string
	Allowed   []string                    // the backends that runs may name, beside Default; nil is all. Auto among them is what it comes to
	Images    func(reference string) bool // says which images runs may name; nil is all
	Languages []sandbox.Language

	Slots        int           // executions at the same time; 0 is twice the CPUs, and at least 4
	Queue        int           // runs that may wait for a slot; 0 is DefaultQueue, negative is none
	QueueTimeout time.Duration // the longest wait for a slot; 0 is DefaultQueueTimeout
	OwnerSlots   int           // of the slots, the most that one owner's runs may hold; 0 is all
	OwnerQueue   int           // of the queue, likewise; 0 is all
	Warm         int           // boxes kept ready for each spec that is in use; 0 keeps none

	Defaults sandbox.Limits // of a run that asks for none; a zero field is that of sandbox.DefaultLimits
	// AllowUnenforced lists what need not be enforced, as if each run had named it.
	AllowUnenforced []string
	// NestedFilters lets the code of every run confine itself further, as sandbox.Spec.NestedFilters does for one.
	NestedFilters bool
	Terminals     bool // as sandbox.Spec.Terminals, for every run

	Max sandbox.Limits // the most that a run may ask for; a zero field sets no maximum. sandbox.DefaultLimits are lowered to it, Defaults are not

	// DefaultEnv is the environment below that of languages, specs and requests; nil is sandbox.DefaultEnv.
	DefaultEnv []string

	Log *slog.Logger // nil discards
}

// Auto as a backend's name chooses the strongest backend that this host carries.
const Auto = "auto"

// Run is one execution in a sandbox of its own.
type Run struct {
	Owner   string          // who it belongs to, over HTTP the name of the API key: whose share of slots, queue and warm boxes it takes; "" is nobody's
	ID      sandbox.ID      // of the execution, for callers that name it before it ends; "" is a new one
	Backend string          // "" is the engine's default, Auto the strongest that works here
	Spec    sandbox.Spec    // zero fields get the engine's defaults; ID is the engine's to choose
	Request sandbox.Request // Timeout, where it is set, replaces Spec.Limits.Timeout

	// Deliver, if set, is given the result while the run still holds its slot, if it came to one, so a result that nobody has room for keeps
	// others from being made. The sandbox is gone or going by then, and no time-out counts. It must return when its client is gone. It may
	// take what it wants out of the result. Its error is that of Run.
	Deliver func(*sandbox.Result) error
}

// Engine admits, creates, executes and ends sandboxes. Its methods may be called from several goroutines.
type Engine struct {
	config    Config
	languages languageTable
	log       *slog.Logger
	admission *admission
	counts    counts
	auto      autoChoice
	closers   closers
	pool      pool
	stock     stock

	stop     context.Context // ends with Close: every run in progress is then canceled
	stopRuns context.CancelFunc
	runs     sync.WaitGroup // Run calls in progress; guarded by admission: none is added after draining began

	mu    sync.Mutex // guards lives
	lives map[sandbox.ID]*live
}

// New returns an engine. It probes nothing and starts nothing, so it is cheap. Errors are Invalid: no backend, two of one
// name, a default that names none, or limits out of bounds.
func New(config Config) (*Engine, error) {
	if err := checkConfig(&config); err != nil {
		return nil, err
	}
	languages, err := newLanguageTable(config.Languages)
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
	if config.DefaultEnv == nil {
		config.DefaultEnv = sandbox.DefaultEnv
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		config:    config,
		languages: languages,
		log:       config.Log,
		admission: newAdmission(config.Slots, config.Queue, config.QueueTimeout),
		lives:     map[sandbox.ID]*live{},
	}
	e.admission.share(config.OwnerSlots, config.OwnerQueue)
	e.closers.tokens = make(chan struct{}, config.Slots)
	e.stop, e.stopRuns = context.WithCancel(context.Background())
	e.pool = pool{engine: e, size: config.Warm, shelves: map[string]*shelf{}}
	return e, nil
}

// DefaultSlots is how many executions run at the same time where nobody says.
func DefaultSlots() int { return max(slotsPerCPU*runtime.NumCPU(), defaultSlots) }

func checkConfig(config *Config) error {
	if len(config.Backends) == 0 {
		return sandbox.Invalidf("backends", "there is none")
	}
	names := map[string]bool{Auto: true, "": true}
	for _, b := range config.Backends {
		if b.Name() != "" && names[b.Name()] {
			return sandbox.Invalidf("backends", "two are called %q", b.Name())
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
	if config.Slots < 0 || config.OwnerSlots < 0 || config.OwnerQueue < 0 {
		return sandbox.Invalidf("slots", "and an owner's share must be positive")
	}
	if err := checkAccepted(config.AllowUnenforced); err != nil {
		return err
	}
	if config.Warm < 0 || config.Warm > maxWarm {
		return sandbox.Invalidf("warm", "must be from 0 to %d", maxWarm)
	}
	if config.QueueTimeout < 0 {
		return sandbox.Invalidf("queue timeout", "must be positive")
	}
	for _, l := range []sandbox.Limits{config.Defaults, config.Max} {
		if err := l.Check(); err != nil {
			return err
		}
	}
	for _, name := range sandbox.LimitNames {
		most, asked := config.Max.Get(name), config.Defaults.Get(name)
		if most != 0 && asked > most {
			return sandbox.Invalidf("limits."+string(name), "the default of %s is over the maximum of %s",
				sandbox.FormatLimit(name, asked), sandbox.FormatLimit(name, most))
		}
		if most != 0 && asked == 0 {
			config.Defaults.Set(name, min(most, sandbox.DefaultLimits.Get(name)))
		}
	}
	config.Defaults = config.Defaults.OrDefault(sandbox.DefaultLimits)
	if err := checkDisk(config.Defaults); err != nil {
		return err
	}
	return checkEnv("default environment", config.DefaultEnv)
}

// Drain stops admitting: new runs are refused as Unavailable, while those that run or wait in the queue go on. It returns nil
// once all have ended and their boxes are closed, or ctx's error if that comes first; Close then cancels what is left.
func (e *Engine) Drain(ctx context.Context) error {
	e.admission.drain()
	done := make(chan struct{})
	go func() { // ends with the last run: Close cancels those
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

// Close cancels every run, waits until all their boxes are closed, and refuses new ones. A second call does nothing more.
func (e *Engine) Close() error {
	e.admission.drain()
	e.stopRuns()
	e.runs.Wait()
	e.pool.close()
	e.closers.wait()
	return nil
}

// Languages returns the languages in the order of Config.
func (e *Engine) Languages() []sandbox.Language { return e.config.Languages }

// Language finds a language by its name or an alias, without regard to case. An unknown one is an Invalid error that says what
// is supported.
func (e *Engine) Language(name string) (sandbox.Language, error) { return e.languages.find(name) }

// LanguageOf finds a language by the extension of a file's name.
func (e *Engine) LanguageOf(fileName string) (sandbox.Language, bool) {
	return e.languages.byExtension(fileName)
}
