package template

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// cacheVersion is part of the key of each step: a change in what steps do needs another one.
const cacheVersion = "fumehood template 2"

// Builder builds templates. Its methods are safe for concurrent use.
type Builder struct {
	Images *image.Store
	Run    func(context.Context, engine.OneShot) (*sandbox.Result, error) // Engine.Run
	Fetch  func(owner string) sandbox.Fetch                               // Engine.FetchFor; nil fetches no base images
	// Refresh fetches base images again, unless they are templates.
	Refresh bool

	Backends []sandbox.Backend // of the engine
	// Probe is Engine.ProbeOf, for builds that name no backend; nil takes the first that has writable roots.
	Probe   func(ctx context.Context, backend string) engine.Probed
	Allowed func(owner, reference string) bool // reports whether builds may name an image; nil is all
	Max     func(owner string) sandbox.Limits  // a zero field is no maximum; nil is none at all
	// MaxWork bounds the work of one build outside of sandboxes, in some 100 ns of CPU time. Making trees of layers may
	// take treeShare times as much. 0 is no bound.
	MaxWork int64

	chosen chosen
}

// chosen is the backend of builds that name none. A probe makes a sandbox, so the first RUN that is not cached probes.
type chosen struct {
	mu    sync.Mutex
	name  string
	until time.Time // when it is chosen again, as a backend did not work; zero is never
}

// chosenFor is how long a choice stays if a backend did not work, perhaps for lack of CPU time or memory.
const chosenFor = time.Minute

// Work of making the tree of a layer. The tree has a link to each file of its parent.
const (
	treeShare    = 6
	entryWork    = 100 // for an entry of the layer or the parent
	writtenBytes = 50  // of content that cost 1: hashed, and written to memory that the kernel writes to disk
	nameWork     = 300 // to name an image, for each name of the store: their records are compared
)

// ServerWork is the MaxWork of builds for requests: some 10 s.
const ServerWork = 100_000_000

// Build is one build.
type Build struct {
	Name       string // of the image that it makes
	Owner      string // as in engine.OneShot
	Backend    string // of the builders; "" is the strongest that works here
	Dockerfile []byte // or else Steps
	Steps      []Step
	Start      string            // as in startOf; "" is that of the base image
	Ready      string            // as in startOf; "" checks nothing, or is that of the base image without Start
	Context    string            // folder of the files to copy; "" has none
	Args       map[string]string // values of ARGs
	Network    sandbox.NetworkPolicy
	Limits     sandbox.Limits // of each step; a zero field is a default
	// AllowUnenforced is as in sandbox.Spec.
	AllowUnenforced []string
	NoCache         bool        // repeat every step
	Report          func(Event) // receives the log, from one goroutine at a time; may be nil
	// Charge is called with the CPU time that the build takes outside of sandboxes, in parts, by several goroutines. It
	// may wait. nil charges nothing.
	Charge func(time.Duration)
}

// Event is an entry of a build's log.
type Event struct {
	Step     int            `json:"step"`             // from 1 on
	Steps    int            `json:"steps"`            // of the build
	Text     string         `json:"text,omitempty"`   // the instruction, when its step begins
	Stream   sandbox.Stream `json:"-"`                // of Output
	Output   []byte         `json:"-"`                // of the command; hostile
	Done     bool           `json:"done,omitempty"`   // the step has ended
	Cached   bool           `json:"cached,omitempty"` // an earlier build has made it
	Duration time.Duration  `json:"-"`                // of a step that is done
}

// build is a Build in progress.
type build struct {
	*Builder
	want   *Build
	recipe *recipe
	lex    *shell.Lex
	done   int // steps that have begun
	steps  int
	stages map[string]*state // finished ones, by name and by number
	used   map[string]bool   // of Args
	held   map[string]*hold  // by tree
	work   int64             // as in Builder.MaxWork
	trees  int64             // the work of making trees
}

// hold keeps a tree, with a descriptor, for so many states.
type hold struct {
	release func()
	uses    int
}

// state is what the steps of a stage have made so far.
type state struct {
	tree   string // "" is empty
	key    [sha256.Size]byte
	config image.Config
	args   []string // NAME=value of the ARGs that are in scope
	shell  []string
}

// Build makes an image of a Dockerfile or of steps, and records it under its name. Errors are Invalid for the text, its
// files and unknown names, and *Failed for a command that did not succeed; the name then keeps its earlier image.
func (b *Builder) Build(ctx context.Context, request Build) (i image.Image, err error) {
	w := &build{Builder: b, want: &request, stages: map[string]*state{}, used: map[string]bool{},
		held: map[string]*hold{}}
	defer func() {
		for _, held := range w.held {
			held.release()
		}
	}()
	if request.Dockerfile != nil {
		began := time.Now()
		w.recipe, err = parseDockerfile(request.Dockerfile)
		w.charge(int64(time.Since(began) / workTime)) // up to half a second
	} else {
		w.recipe, err = recipeOf(request.Steps)
	}
	if err != nil {
		return i, err
	}
	if err = w.checkBackend(); err != nil {
		return i, err
	}
	if err = w.check(request.Name); err == nil {
		err = w.checkName()
	}
	if err != nil {
		return i, err
	}
	var most sandbox.Limits
	if b.Max != nil {
		most = b.Max(request.Owner)
	}
	request.Limits = request.Limits.OrDefault(DefaultLimits(capacity.Host(), most))
	w.lex = shell.NewLex(w.recipe.escape)
	for _, s := range w.recipe.stages {
		w.steps += 1 + len(s.instructions)
	}
	var last *state
	for n, s := range w.recipe.stages {
		if last, err = w.stage(ctx, s); err != nil {
			return i, err
		}
		w.stages[fmt.Sprint(n)] = last
		if s.name != "" {
			w.stages[strings.ToLower(s.name)] = last
		}
	}
	for name := range request.Args {
		if !w.used[name] {
			return i, sandbox.Invalidf("template", "no ARG is named %.80q", name)
		}
	}
	if last.tree == "" {
		return i, sandbox.Invalidf("template", "it has no files: nothing was copied into scratch")
	}
	if last.config.Start, err = last.startOf(request.Start, request.Ready); err != nil {
		return i, err
	}
	w.charge(nameWork * int64(b.Images.Names()))
	return b.Images.Put(request.Name, request.Owner, last.tree, last.config)
}

// begin reports the begin of a step, and returns what reports its end.
func (b *build) begin(text string) (end func(cached bool)) {
	b.done++
	e := Event{Step: b.done, Steps: b.steps, Text: text}
	began := time.Now()
	b.report(e)
	return func(cached bool) {
		b.report(Event{Step: e.Step, Steps: e.Steps, Done: true, Cached: cached, Duration: time.Since(began)})
	}
}

func (b *build) report(e Event) {
	if b.want.Report != nil {
		b.want.Report(e)
	}
}

// stage carries out one stage.
func (b *build) stage(ctx context.Context, s stage) (*state, error) {
	end := b.begin("FROM " + s.base)
	st, err := b.from(ctx, s)
	if err != nil {
		return nil, err
	}
	end(true)
	for _, i := range s.instructions {
		end := b.begin(i.text)
		cached, err := b.step(ctx, st, i)
		if err != nil {
			var failed *Failed
			if i.line == 0 || errors.As(err, &failed) {
				return nil, err
			}
			return nil, fmt.Errorf("Dockerfile line %d: %w", i.line, err)
		}
		end(cached)
	}
	return st, nil
}

// from begins a stage: with an earlier stage, an image, or nothing.
func (b *build) from(ctx context.Context, s stage) (*state, error) {
	st := &state{shell: []string{"/bin/sh", "-c"}}
	for _, a := range b.recipe.args {
		value, err := b.argValue(a, st)
		if err != nil {
			return nil, err
		}
		st.args = append(st.args, a.name+"="+value)
	}
	base, err := b.expand(st, s.base)
	st.args = nil // they are in scope of FROM alone
	if err != nil {
		return nil, err
	}
	if earlier := b.stages[strings.ToLower(base)]; earlier != nil {
		next := *earlier
		next.args, next.config.Env = nil, slices.Clone(earlier.config.Env)
		if next.tree == "" {
			return &next, nil
		}
		return &next, b.hold(next.tree)
	}
	if base == "scratch" {
		st.key = hash("scratch", b.want.Owner)
		return st, nil
	}
	i, err := b.image(ctx, base)
	if err != nil {
		return nil, err
	}
	st.tree, st.config = i.Tree, i.Config
	st.config.Env = slices.Clone(i.Config.Env)
	config, err := json.Marshal(i.Config)
	// The result of a RUN depends on the network of its owner, who may make it fail on purpose. And whether a COPY is
	// repeated would reveal what another owner has copied.
	st.key = hash("image", b.want.Owner, i.Tree, string(config))
	return st, errors.Join(err, b.hold(i.Tree))
}

// image returns an image of the store, which it fetches if that is permitted.
func (b *build) image(ctx context.Context, name string) (image.Image, error) {
	if err := b.check(name); err != nil {
		return image.Image{}, err
	}
	var pull func() (image.Image, error)
	if b.Fetch != nil {
		pull = func() (i image.Image, err error) {
			err = b.Fetch(b.want.Owner)(ctx, func(ctx context.Context) error {
				i, err = b.Images.Pull(ctx, name, func(line string) {
					b.report(Event{Step: b.done, Steps: b.steps, Stream: sandbox.Stderr, Output: []byte(line + "\n")})
				})
				return err
			})
			return i, err
		}
	}
	return b.Images.Get(name, pull, b.Refresh)
}

// check refuses images that the operator does not offer.
func (b *build) check(name string) error {
	if b.Allowed != nil && !b.Allowed(b.want.Owner, name) {
		return sandbox.Invalidf("image", "this server does not offer %.200q", name)
	}
	return nil
}

// checkName refuses the names of other images, and for a key the default image of a backend.
func (b *build) checkName() error {
	for _, backend := range b.Backends {
		rooted, ok := backend.(sandbox.Rooted)
		if ok && b.want.Owner != "" && image.SameName(rooted.Root(sandbox.Spec{}).Image, b.want.Name) {
			return &sandbox.Error{Kind: sandbox.Exists, Op: "name", Fix: "choose another name",
				Msg: b.want.Name + " is the image of requests without one"}
		}
	}
	return b.Images.CheckName(b.want.Name, b.want.Owner)
}

// hold keeps a tree for a state, until drop or the end of the build.
func (b *build) hold(tree string) error {
	if held := b.held[tree]; held != nil {
		held.uses++
		return nil
	}
	_, release, err := b.Images.HoldTree(tree)
	if errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Kind: sandbox.Busy, Op: "template", Msg: "its files were removed to make room for others",
			Fix: "try again"}
	}
	if err == nil {
		b.held[tree] = &hold{release, 1}
	}
	return err
}

// drop ends a hold, so that a build of many steps holds few descriptors.
func (b *build) drop(tree string) {
	if held := b.held[tree]; held != nil {
		if held.uses--; held.uses == 0 {
			delete(b.held, tree)
			held.release()
		}
	}
}

// advance makes a tree that is held the current one of a stage.
func (b *build) advance(st *state, tree string, key [sha256.Size]byte) {
	b.drop(st.tree)
	st.tree, st.key = tree, key
}

// step carries out one instruction.
func (b *build) step(ctx context.Context, st *state, i instruction) (cached bool, err error) {
	if !i.literal {
		if err := b.expandAll(st, &i); err != nil {
			return false, err
		}
	}
	switch i.kind {
	case kindRun:
		return b.run(ctx, st, i)
	case kindCopy, kindAdd:
		return b.copy(ctx, st, i)
	case kindWorkdir:
		return b.workdir(ctx, st, i.words[0])
	case kindEnv:
		for _, p := range i.pairs {
			st.config.Env = set(st.config.Env, p.name, p.value)
		}
		return true, b.checkVariables(st)
	case kindArg:
		for _, p := range i.pairs {
			value, err := b.argValue(p, st)
			if err != nil {
				return false, err
			}
			if _, given := b.want.Args[p.name]; given || p.isSet || value != "" {
				st.args = set(st.args, p.name, value)
			}
		}
		return true, b.checkVariables(st)
	case kindUser:
		st.config.User = i.words[0]
	case kindShell:
		st.shell = i.words
	case kindCommand:
		st.config.Command = st.commandOf(i)
	case kindEntrypoint:
		st.config.Entrypoint, st.config.Command = st.commandOf(i), nil
	}
	return true, nil
}

// commandOf returns the command of an instruction with its shell.
func (st *state) commandOf(i instruction) []string {
	if !i.inShell {
		return i.words
	}
	return append(slices.Clone(st.shell), strings.Join(i.words, " "))
}

// hash hashes texts, each with its length.
func hash(texts ...string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, t := range append([]string{cacheVersion}, texts...) {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// layer makes the next tree of a stage: that of an earlier build with the same key, or the one that apply makes above
// the current one.
func (b *build) layer(st *state, key [sha256.Size]byte, apply func() (string, error)) (cached bool, err error) {
	tree := ""
	if !b.want.NoCache {
		tree = b.Images.Step(key)
	}
	if tree != "" && b.hold(tree) == nil {
		b.advance(st, tree, key)
		return true, nil
	}
	if tree, err = apply(); err != nil {
		return false, err
	}
	if err = b.hold(tree); err != nil {
		return false, err
	}
	b.advance(st, tree, key)
	return false, b.Images.AddStep(key, tree)
}

// folder returns the folder of the current tree, or "" without one.
func (b *build) folder(st *state) string {
	if st.tree == "" {
		return ""
	}
	return b.Images.Files(st.tree)
}

// workdir sets the working directory, and makes it if it is missing.
func (b *build) workdir(ctx context.Context, st *state, dir string) (cached bool, err error) {
	if !path.IsAbs(dir) {
		dir = path.Join("/", st.config.Dir, dir)
	}
	st.config.Dir = path.Clean(dir)
	return b.makeDir(ctx, st, st.config.Dir)
}

func (b *build) makeDir(ctx context.Context, st *state, dir string) (cached bool, err error) {
	if at := b.folder(st); dir == "/" || at != "" && image.IsFolder(at, dir) {
		return true, nil
	}
	items := items{{name: dir[1:], mode: fs.ModeDir | 0o755}}
	return b.layer(st, hash(string(st.key[:]), "folder", dir), func() (string, error) {
		return b.add(ctx, st, func(w io.Writer) error { return items.write(ctx, nil, w, io.Discard) })
	})
}

// readFile reads a small file of the current tree, or returns nil.
func (b *build) readFile(st *state, name string) []byte {
	const most = 64 << 10 // for each step
	root, err := os.OpenRoot(b.folder(st))
	if err != nil {
		return nil
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return text
}
