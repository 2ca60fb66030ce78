package packages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Defaults and limits.
const (
	DefaultTTL      = 24 * time.Hour // until the answer to an unpinned request expires
	DefaultMaxBytes = 10 << 30       // of all layers

	maxRequirements = sandbox.MaxRequirements
	maxAnswer       = 1 << 20 // bytes of JSON from a sandbox
	maxSurveyed     = 1 << 20 // bytes of code; a survey reads as much of a file
	maxFound        = 1000
	maxLock         = 1 << 20
	maxPackages     = 5000     // of one layer
	maxPackageWords = 16 << 10 // bytes of the description of one
	maxWords        = 4000     // bytes of an installer's error
)

// installLimits are the limits of an installer sandbox. Its downloads and its packages occupy its memory.
var installLimits = sandbox.Limits{MemoryBytes: 4 << 30, DiskBytes: 3 << 30, Inodes: 400_000, CPUMillis: 2000,
	Pids: 512, OpenFiles: 4096, Timeout: 10 * time.Minute, OutputBytes: maxAnswer}

// surveyLimits are the limits of a survey.
var surveyLimits = sandbox.Limits{Timeout: 20 * time.Second, OutputBytes: maxAnswer}

// Index is an index of packages.
type Index struct {
	URL   string   // "" means the default index of the installer
	Hosts []string // further hosts that serve its files
}

// Config configures a Packager.
type Config struct {
	Dir      string        // of the cache
	MaxBytes int64         // of all layers, and again of the packages in living sandboxes; 0 means DefaultMaxBytes
	TTL      time.Duration // 0 means DefaultTTL
	Indexes  map[string]Index
	Shared   Shared // the second tier
	Log      *slog.Logger

	// SeveralOwners reports whether the living sandboxes of each owner are limited to half of MaxBytes; nil is false.
	SeveralOwners func() bool
}

// Packager is a sandbox.Packager with a cache.
type Packager struct {
	config  Config
	tier    *tier // may be nil
	flights flights

	mu    sync.Mutex
	cache *Cache // nil until it is opened

	reserving sync.Mutex // serializes reservations of disk space
}

// New returns a Packager. It opens its cache at the first need.
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
	in := need.Language.Installer
	if need.Present != nil {
		present := *need.Present
		present.Texts = in.Folder.Present(os.DirFS(present.Folder), present.Packages)
		need.Present = &present
	}
	onlyCode := need.Auto && len(need.Requirements) == 0 && !need.Open
	if onlyCode && in.NeedsNone != nil && in.NeedsNone(need.Code, need.Files) {
		return &sandbox.Supply{Release: func() {}}, nil
	}
	cache, err := p.open()
	if err != nil {
		return nil, err
	}
	j := &job{packager: p, cache: cache, need: &need, work: work, index: p.config.Indexes[in.Name]}
	key := requestKey(&need, j.index)
	if key != "" {
		if a, ok := cache.find(key, p.ttl(&need)); ok {
			if s, err := cache.supply(&need, a); err == nil {
				return s, nil
			} // the layer was removed in the meantime
		}
	}
	a, err := j.resolve(ctx)
	if err != nil {
		return nil, err
	}
	defer a.release()
	if key != "" {
		j.record(key, a.answer)
	}
	return cache.supply(&need, a.answer)
}

// ttl returns the time until the answer to a need expires; 0 means never.
func (p *Packager) ttl(need *sandbox.PackageNeed) time.Duration {
	if need.Lock != "" {
		return 0
	}
	return p.config.TTL
}

// check returns an error for a need that is invalid.
func check(need *sandbox.PackageNeed) error {
	if err := sandbox.CheckRequirements(len(need.Requirements)); err != nil {
		return err
	}
	if need.Auto && len(need.Code) > maxSurveyed {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "packages", Msg: "auto reads at most 1MiB of code",
			Fix: "name the packages instead of auto"}
	}
	in, inCode := need.Language.Installer, []string(nil)
	if need.Auto && in.Magic != nil {
		inCode = in.Magic(need.Code).Requirements
	}
	if err := in.Check(need.Requirements, inCode); err != nil {
		return err
	}
	switch {
	case need.Lock == "":
	case need.Auto || len(need.Requirements) > 0:
		return sandbox.Invalidf("lock", "a lock lists all packages; leave out the others")
	case len(need.Lock) > maxLock || !in.ValidLock(need.Lock):
		return sandbox.Invalidf("lock", "not a lock for %s in the format of fumehood deps lock", need.Language.Title)
	}
	return nil
}

// record records the answer to a key. Where it fails, the next run surveys again.
func (j *job) record(key string, a any) {
	if err := j.cache.remember(key, a); err != nil {
		j.packager.config.Log.Warn("cannot write to the package cache", "err", err)
	}
}

// supply returns the supply of an answer, and holds its layer.
func (c *Cache) supply(need *sandbox.PackageNeed, a answer) (*sandbox.Supply, error) {
	s := &sandbox.Supply{Packages: a.Packages, Lock: a.Lock, Asked: a.Requested, Missing: a.Missing,
		Optional: a.Optional, Release: func() {}}
	if a.Digest == "" {
		return s, nil
	}
	release, err := c.trees.Hold(a.Digest)
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

// job resolves one need.
type job struct {
	tell     func(string) // reports progress
	packager *Packager
	cache    *Cache
	need     *sandbox.PackageNeed
	work     sandbox.Worker
	index    Index
}

// resolve surveys the code, and installs the packages that are missing.
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
	if j.need.Auto { // its survey covered only the code
		if survey, err = j.surveyRoot(ctx); err != nil {
			return kept{}, err
		}
	}
	if order.Index == "" {
		order.Index = survey.Index
	}
	if survey.Installer == "" {
		return kept{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Fix: j.need.Language.Installer.Fix,
			Msg: fmt.Sprintf("the root has no installer for %s, which needs %s", j.need.Language.Title, summary(order))}
	}
	key := setKey(j.need, survey.Platform, order.Index, &order)
	tell := j.need.Progress
	if tell == nil {
		tell = func(string) {}
	}
	flight := newKeyer("flight")
	flight.add(key, j.need.Terms)
	a, err := j.packager.flights.do(ctx, flight.key(), tell,
		func(ctx context.Context, tell func(string)) (kept, error) {
			one := *j
			one.tell = tell
			return one.installOnce(ctx, key, survey, order)
		})
	a.Missing, a.Optional = append(slices.Clone(a.Missing), dropped...), optional
	return a, err
}

// installOnce installs a set unless another process or machine has installed it, and keeps its layer.
func (j *job) installOnce(ctx context.Context, key string, survey *sandbox.PackageSurvey, order sandbox.PackageOrder) (
	kept, error) {
	unlock, locked, err := j.cache.lock(ctx, key, j.tell)
	if err != nil {
		return kept{}, cacheError(err)
	}
	defer unlock()
	for again := false; ; again = true {
		a, err := j.obtain(ctx, key, survey, order, locked)
		if err != nil {
			return kept{}, err
		}
		release := func() {}
		if a.Digest != "" {
			release, err = j.cache.trees.Keep(a.Digest)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && !again:
			continue // another process pruned the layer
		case err != nil:
			return kept{}, layerError(err)
		}
		if _, err := j.cache.Prune(j.packager.config.MaxBytes); err != nil {
			j.packager.config.Log.Warn("cannot prune the package cache", "err", err)
		}
		return kept{a, release}, nil
	}
}

// obtain finds the layer of a set in the cache or the second tier, or installs it.
func (j *job) obtain(ctx context.Context, key string, survey *sandbox.PackageSurvey, order sandbox.PackageOrder,
	locked bool) (a answer, err error) {
	if a, ok := j.cache.find(key, j.packager.ttl(j.need)); ok {
		return a, nil
	}
	a, found, release := j.take(ctx, key, locked)
	defer release()
	if !found {
		if a, err = j.install(ctx, survey, order); err != nil {
			return a, err
		}
	}
	keys := []string{key}
	// A request with this lock finds the layer too. With AllowBuild the lock is not trusted: code of a package may have
	// forged it.
	if order.Lock == "" && a.Lock != "" && !order.AllowBuild {
		order.Lock, order.Requirements, order.Found = a.Lock, nil, nil
		keys = append(keys, setKey(j.need, survey.Platform, order.Index, &order))
	}
	for _, key := range keys {
		j.record(key, a)
	}
	if !found {
		j.offer(ctx, keys, a)
	}
	return a, nil
}

// survey determines what the code needs. For requirements without code, it determines which are missing, and describes
// the root.
func (j *job) survey(ctx context.Context) (*sandbox.PackageSurvey, error) {
	in := j.need.Language.Installer
	q := sandbox.PackageQuestion{Auto: j.need.Auto, Name: j.need.Name, Requirements: list(j.need.Requirements),
		Imports: []sandbox.Import{}}
	if code := j.need.Code; q.Auto {
		if in.Imports != nil {
			q.Imports = in.Imports(code)
		}
		if in.Magic != nil {
			q.Requirements = append(slices.Clip(q.Requirements), in.Magic(code).Requirements...)
			code = in.Plain(code)
		}
		q.Code = strings.ToValidUTF8(string(code), "\ufffd")
	}
	return j.ask(ctx, q)
}

// rootTTL is the time until the survey of a root expires.
const rootTTL = time.Hour

// rootSurvey is the recorded survey of a root.
type rootSurvey struct {
	sandbox.PackageSurvey
	Made time.Time
}

// surveyRoot describes the root, in a sandbox without code and files: these could influence which hosts an installer
// may reach.
func (j *job) surveyRoot(ctx context.Context) (*sandbox.PackageSurvey, error) {
	key := ""
	if j.need.Root.Image == "" || j.need.Root.Digest != "" {
		k := newKeyer("root")
		k.add(j.need.Language.Installer.At)
		k.add(rootIdentity(j.need.Root, j.need.Language.Installer.Witnesses)...)
		k.add(lowLimits(j.need)...)
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

// ask runs a survey in a sandbox: that of the run if the question is about the code, otherwise a new one.
func (j *job) ask(ctx context.Context, q sandbox.PackageQuestion) (*sandbox.PackageSurvey, error) {
	w := sandbox.Work{Command: j.need.Language.Installer.Survey, Survey: q.Auto, Limits: surveyLimits}
	if q.Auto {
		w.Tool = j.need.Language.Installer.Tool
	}
	result, err := j.step(ctx, "survey the code", w, q)
	if err != nil {
		return nil, err
	}
	var s sandbox.PackageSurvey
	if err := parse(result, &s); err != nil || len(s.Found) > maxFound || len(s.Platform) > maxPath {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: survey the code", Err: err,
			Msg: "the survey printed an invalid answer"}
	}
	return &s, nil
}

// step runs one program in a sandbox, with a question on stdin.
func (j *job) step(ctx context.Context, what string, w sandbox.Work, question any) (*sandbox.Result, error) {
	var stdin bytes.Buffer
	out := json.NewEncoder(&stdin)
	out.SetEscapeHTML(false) // an escaped < takes six bytes
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

// unfinished returns the error of a step that did not succeed.
func unfinished(what string, r *sandbox.Result) error {
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: " + what}
	switch limits := r.Requested.Limits; r.Status {
	case sandbox.StatusTimeout:
		e.Msg = "it did not end within " + sandbox.FormatLimit(sandbox.LimitTimeout, int64(limits.Timeout))
		e.Fix = "the index may be slow: try again, or ask for fewer packages"
	case sandbox.StatusOutOfMemory:
		e.Kind, e.Fix = sandbox.TooLarge, "ask for fewer packages"
		e.Msg = "it needs more than " + sandbox.FormatLimit(sandbox.LimitMemory, limits.MemoryBytes) + " of memory"
	default:
		e.Msg, e.Err = "it ended as "+string(r.Status), lastWords(r)
	}
	return e
}

// lastWords returns the end of the output of a failed step as an error.
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

// parse decodes the answer on stdout, which is hostile.
func parse(r *sandbox.Result, into any) error {
	if r.Stdout.Dropped > 0 || len(r.Stdout.Head) > maxAnswer || !utf8.Valid(r.Stdout.Head) {
		return errors.New("too long, or not text")
	}
	return json.Unmarshal(r.Stdout.Head, into)
}

// list returns a list that is not null in JSON.
func list(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

// plainText removes the characters of a hostile text that are neither printable nor line ends.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
