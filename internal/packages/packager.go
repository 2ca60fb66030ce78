package packages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Defaults and limits.
const (
	DefaultTTL      = 24 * time.Hour // how long the answer to an unpinned request is good
	DefaultMaxBytes = 10 << 30       // of all layers

	maxRequirements = sandbox.MaxRequirements
	maxAnswer       = 1 << 20 // bytes of JSON from a sandbox
	maxSurveyed     = 1 << 20 // bytes of code; of a file, a survey reads no more either
	maxFound        = 1000
	maxLock         = 1 << 20
	maxPackages     = 5000     // of one layer
	maxPackageWords = 16 << 10 // bytes of what is known of one
	maxWords        = 4000     // bytes of an installer's error
)

// installLimits are those of an installer sandbox. What it downloads and installs lies in its memory.
var installLimits = sandbox.Limits{MemoryBytes: 4 << 30, DiskBytes: 3 << 30, Inodes: 400_000, CPUMillis: 2000, Pids: 512, OpenFiles: 4096, Timeout: 10 * time.Minute,
	OutputBytes: maxAnswer}

// surveyLimits are those of a survey.
var surveyLimits = sandbox.Limits{Timeout: 20 * time.Second, OutputBytes: maxAnswer}

// Index is where packages of a language come from.
type Index struct {
	URL   string   // "" is the installer's own default
	Hosts []string // further hosts that it hands out files from
}

// Config configures a Packager.
type Config struct {
	Dir      string        // of the cache
	MaxBytes int64         // of all layers, and as much of what living sandboxes have of them; 0 is DefaultMaxBytes
	TTL      time.Duration // 0 is DefaultTTL
	Indexes  map[string]Index
	Shared   Shared // with other machines; asked for what the cache lacks
	Log      *slog.Logger

	// SeveralOwners lets the living sandboxes of one owner have half of what all may have.
	SeveralOwners bool
}

// Packager is a sandbox.Packager with a cache.
type Packager struct {
	config  Config
	tier    *tier // nil: none
	flights flights

	mu    sync.Mutex
	cache *Cache // once it could be opened

	showing sync.Mutex // one at a time asks whether there is room
}

// New returns a Packager. It opens its cache when that is first needed.
func New(config Config) *Packager {
	config.MaxBytes, config.TTL = cmp.Or(config.MaxBytes, DefaultMaxBytes), cmp.Or(config.TTL, DefaultTTL)
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Packager{config: config, tier: newTier(config.Shared, config.Log)}
}

func (p *Packager) open() (_ *Cache, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cache == nil {
		p.cache, err = OpenCache(p.config.Dir)
	}
	return p.cache, err
}

// Supply implements sandbox.Packager.
func (p *Packager) Supply(ctx context.Context, need sandbox.PackageNeed, work sandbox.Worker) (*sandbox.Supply, error) {
	if err := check(&need); err != nil {
		return nil, err
	}
	if glance := need.Language.Installer.NeedsNone; need.Auto && len(need.Requirements) == 0 && !need.Open && glance != nil && glance(need.Code, need.Files) {
		return &sandbox.Supply{Release: func() {}}, nil
	}
	cache, err := p.open()
	if err != nil {
		return nil, err
	}
	j := &job{packager: p, cache: cache, need: &need, work: work, index: p.config.Indexes[need.Language.Installer.Name]}
	j.identify(ctx)
	key := requestKey(&need, j.root, j.index)
	if key != "" {
		if a, ok := cache.find(key, p.ttl(&need)); ok {
			if s, err := cache.supply(&need, a); err == nil {
				return s, nil
			} // else it has gone since
		}
	}
	a, err := j.resolve(ctx)
	if err != nil {
		return nil, err
	}
	defer a.release()
	if key := requestKey(&need, j.root, j.index); key != "" { // its image may have been fetched meanwhile
		j.record(key, a.answer)
	}
	return cache.supply(&need, a.answer)
}

// ttl is how long the answer to a need is good; 0 is forever.
func (p *Packager) ttl(need *sandbox.PackageNeed) time.Duration {
	if need.Lock != "" {
		return 0
	}
	return p.config.TTL
}

// check checks a need as it came.
func check(need *sandbox.PackageNeed) error {
	if err := sandbox.CheckRequirements(len(need.Requirements)); err != nil {
		return err
	}
	for i, r := range need.Requirements {
		if !need.Language.Installer.Valid(r) {
			err := sandbox.Invalidf(fmt.Sprintf("packages[%d]", i), "%.80q is not the name of a package, perhaps with versions; paths and addresses are not installed", r)
			if as := strings.Replace(r, "==", "@", 1); as != r && need.Language.Installer.Valid(as) { // pip's way, for npm
				err.Fix = "ask for " + as
			}
			return err
		}
	}
	switch {
	case need.Auto && len(need.Code) > maxSurveyed:
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "packages", Msg: "what code of more than 1MiB imports is not looked for", Fix: "name its packages instead of auto"}
	case need.Lock == "":
	case need.Auto || len(need.Requirements) > 0:
		return sandbox.Invalidf("lock", "a lock says all that is installed; leave out the packages")
	case len(need.Lock) > maxLock || !need.Language.Installer.ValidLock(need.Lock):
		return sandbox.Invalidf("lock", "it is not a lock for %s as fumehood deps lock prints it", need.Language.Title)
	}
	return nil
}

// record remembers the answer to a key; without that, the next run surveys again.
func (j *job) record(key string, a any) {
	if err := j.cache.remember(key, a); err != nil {
		j.packager.config.Log.Warn("could not write to the cache of packages", "err", err)
	}
}

// supply holds the layer of an answer.
func (c *Cache) supply(need *sandbox.PackageNeed, a answer) (*sandbox.Supply, error) {
	s := &sandbox.Supply{Packages: a.Packages, Lock: a.Lock, Asked: a.Asked, Missing: a.Missing, Optional: a.Optional, Release: func() {}}
	if a.Digest == "" {
		return s, nil
	}
	release, err := c.hold(a.Digest)
	if err != nil {
		return nil, layerError(err)
	}
	s.Release = release
	s.Layers = []sandbox.Layer{{Digest: a.Digest, Dir: c.tree(a.Digest), At: need.Language.Installer.At}}
	s.Path = need.Language.Installer.Path
	return s, nil
}

func layerError(err error) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: open the layer", Err: err, Fix: "try again"}
}

// job is one need that the cache does not answer.
type job struct {
	tell     func(string) // what is done meanwhile
	packager *Packager
	cache    *Cache
	need     *sandbox.PackageNeed
	work     sandbox.Worker
	index    Index
	root     string // its id; "" if it is not known
}

// identify finds out which root this is, unless that is known.
func (j *job) identify(ctx context.Context) {
	if j.root == "" && j.need.RootID != nil {
		j.root = j.need.RootID(ctx)
	}
}

// resolve surveys, and installs what is not there.
func (j *job) resolve(ctx context.Context) (kept, error) {
	survey, err := j.survey(ctx)
	if err != nil {
		return kept{}, err
	}
	order, dropped, optional := j.order(survey)
	if err := sandbox.CheckRequirements(len(order.Requirements) + len(order.Found)); err != nil {
		return kept{}, err
	}
	now := time.Now().UTC()
	if len(order.Requirements)+len(order.Found) == 0 && order.Lock == "" {
		return kept{answer{Missing: dropped, Optional: optional, Made: now}, func() {}}, nil
	}
	j.identify(ctx)
	if j.need.Auto { // its survey was about the code alone
		if survey, err = j.surveyRoot(ctx); err != nil {
			return kept{}, err
		}
	}
	if order.Index == "" {
		order.Index = survey.Index
	}
	if survey.Installer == "" {
		return kept{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: fmt.Sprintf("the root has nothing that installs packages for %s, and %s would be needed",
			j.need.Language.Title, strings.Join(shown(order), ", ")), Fix: j.need.Language.Installer.Fix}
	}
	key := setKey(j.need, j.root, survey.Platform, order.Index, &order)
	tell := j.need.Progress
	if tell == nil {
		tell = func(string) {}
	}
	flight := newKeyer("flight")
	flight.add(key, j.need.Terms)
	a, err := j.packager.flights.do(ctx, flight.key(), tell, func(ctx context.Context, tell func(string)) (kept, error) {
		one := *j
		one.tell = tell
		return one.once(ctx, key, survey, order)
	})
	a.Missing, a.Optional = append(slices.Clone(a.Missing), dropped...), optional
	return a, err
}

// once installs a set, unless others, another process or another machine have, and keeps its layer.
func (j *job) once(ctx context.Context, key string, survey *sandbox.PackageSurvey, order sandbox.PackageOrder) (kept, error) {
	unlock, alone, err := j.cache.lock(ctx, key, j.tell)
	if err != nil {
		return kept{}, cacheError(err)
	}
	defer unlock()
	for again := false; ; again = true {
		a, err := j.obtain(ctx, key, survey, order, alone)
		if err != nil {
			return kept{}, err
		}
		release := func() {}
		if a.Digest != "" {
			release, err = j.cache.keep(a.Digest, nil)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && !again:
			continue // another process has just pruned it
		case err != nil:
			return kept{}, layerError(err)
		}
		if _, err := j.cache.Prune(j.packager.config.MaxBytes); err != nil {
			j.packager.config.Log.Warn("could not prune the cache of packages", "err", err)
		}
		return kept{a, release}, nil
	}
}

// obtain finds the layer of a set here or on another machine, or makes it.
func (j *job) obtain(ctx context.Context, key string, survey *sandbox.PackageSurvey, order sandbox.PackageOrder, alone bool) (a answer, err error) {
	if a, ok := j.cache.find(key, j.packager.ttl(j.need)); ok {
		return a, nil
	}
	a, found, release := j.take(ctx, key, alone)
	defer release()
	if !found {
		if a, err = j.install(ctx, survey, order); err != nil {
			return a, err
		}
	}
	keys := []string{key}
	// Whoever gives the lock back finds it too; but code of a package that ran beside the installer may have made up the lock of another.
	if order.Lock == "" && a.Lock != "" && !order.AllowBuild {
		order.Lock, order.Requirements, order.Found = a.Lock, nil, nil
		keys = append(keys, setKey(j.need, j.root, survey.Platform, order.Index, &order))
	}
	for _, key := range keys {
		j.record(key, a)
	}
	if !found {
		j.offer(ctx, keys, a)
	}
	return a, nil
}

// survey finds out what the code needs, or for requirements alone, which of them are not there, and what the root has.
func (j *job) survey(ctx context.Context) (*sandbox.PackageSurvey, error) {
	in := j.need.Language.Installer
	q := sandbox.PackageQuestion{Auto: j.need.Auto, Name: j.need.Name, Requirements: list(j.need.Requirements), Imports: []sandbox.Import{}}
	if code := j.need.Code; q.Auto {
		if in.Imports != nil {
			q.Imports = in.Imports(code)
		}
		if in.Magic != nil {
			q.Requirements = append(slices.Clip(q.Requirements), in.Magic(code)...)
			code = in.Plain(code)
		}
		q.Code = strings.ToValidUTF8(string(code), "\ufffd")
	}
	return j.ask(ctx, q)
}

// rootTTL is how long it is remembered what a root has.
const rootTTL = time.Hour

// rootSurvey is what a root has.
type rootSurvey struct {
	sandbox.PackageSurvey
	Made time.Time
}

// surveyRoot finds out what the root has, in a sandbox without code and files: those could have a say in where installers may go.
func (j *job) surveyRoot(ctx context.Context) (*sandbox.PackageSurvey, error) {
	key := ""
	if j.need.Root.Image == "" || j.root != "" {
		k := newKeyer("root")
		k.add(j.need.Language.Installer.At)
		k.add(rootIdentity(j.need.Root, j.root, j.need.Language.Installer.Witnesses)...)
		key = k.key()
		var known rootSurvey
		if j.cache.recall(key, &known) && time.Since(known.Made) < rootTTL {
			return &known.PackageSurvey, nil
		}
	}
	s, err := j.ask(ctx, sandbox.PackageQuestion{Imports: []sandbox.Import{}, Requirements: []string{}})
	if err == nil && key != "" && s.Installer != "" {
		j.record(key, rootSurvey{*s, time.Now().UTC()})
	}
	return s, err
}

// ask has a sandbox answer a survey's question: a new one, or if the question is about the code, the one of the run.
func (j *job) ask(ctx context.Context, q sandbox.PackageQuestion) (*sandbox.PackageSurvey, error) {
	w := sandbox.Work{Command: j.need.Language.Installer.Survey, Survey: q.Auto, Limits: surveyLimits}
	if q.Auto {
		w.Tool = j.need.Language.Installer.Tool
	}
	result, err := j.step(ctx, "find what the code needs", w, q)
	if err != nil {
		return nil, err
	}
	var s sandbox.PackageSurvey
	if err := parse(result, &s); err != nil || len(s.Found) > maxFound || len(s.Platform) > maxPath {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: find what the code needs", Msg: "the survey's answer is not one", Err: err}
	}
	return &s, nil
}

// step has a sandbox answer a question.
func (j *job) step(ctx context.Context, what string, w sandbox.Work, question any) (*sandbox.Result, error) {
	var stdin bytes.Buffer
	out := json.NewEncoder(&stdin)
	out.SetEscapeHTML(false) // each < of code would be six bytes
	if err := out.Encode(question); err != nil {
		return nil, err
	}
	w.Stdin = stdin.Bytes()
	if in := j.need.Language.Installer; w.Survey && in.SurveyCode != nil {
		w.Code = in.SurveyCode(w.Stdin)
	}
	result, err := j.work(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("packages: %s: %w", what, err)
	}
	if result.Status == sandbox.StatusSucceeded {
		return result, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, unfinished(what, result)
}

// unfinished is why a step came to no end of its own.
func unfinished(what string, r *sandbox.Result) error {
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: " + what}
	switch limits := r.Requested.Limits; r.Status {
	case sandbox.StatusTimeout:
		e.Msg = "it did not end within " + sandbox.FormatLimit(sandbox.LimitTimeout, int64(limits.Timeout))
		e.Fix = "the index may be slow: try again, or ask for fewer packages"
	case sandbox.StatusOutOfMemory:
		e.Kind, e.Msg = sandbox.TooLarge, "it needs more than "+sandbox.FormatLimit(sandbox.LimitMemory, limits.MemoryBytes)+" of memory"
		e.Fix = "ask for fewer packages"
	default:
		e.Msg, e.Err = "it ended as "+string(r.Status), lastWords(r)
	}
	return e
}

// lastWords is the end of what a failed step wrote.
func lastWords(r *sandbox.Result) error {
	text := r.Stderr.Tail
	if len(text) == 0 {
		text = r.Stderr.Head
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil
	}
	return fmt.Errorf("%s", plainText(string(text[max(0, len(text)-1000):])))
}

// parse reads an answer on stdout. It is hostile.
func parse(r *sandbox.Result, into any) error {
	if r.Stdout.Dropped > 0 || len(r.Stdout.Head) > maxAnswer || !utf8.Valid(r.Stdout.Head) {
		return fmt.Errorf("it is too long, or not text")
	}
	in := json.NewDecoder(bytes.NewReader(r.Stdout.Head))
	if err := in.Decode(into); err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return fmt.Errorf("something follows it")
	}
	return nil
}

// list makes sure that JSON has a list.
func list(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

// plainText is text of a sandbox that can be shown: printable, on lines.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && !(r >= 0x80 && r < 0xa0) && r != '\u2028' && r != '\u2029' && !(r >= 0x202a && r <= 0x202e) && !(r >= 0x2066 && r <= 0x2069) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\ufffd"))
}
