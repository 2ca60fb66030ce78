package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestMergeRequirements(t *testing.T) {
	had := []string{"a==1", "b_c", "@s/d@1"}
	for _, c := range []struct {
		folds       bool
		asked, want []string
	}{
		{true, []string{"A==2", "b-c>=1", "@s/d@2", "@s/e"}, []string{"A==2", "b-c>=1", "@s/d@2", "@s/e"}},
		{true, []string{"a", "B.C", "@s/d"}, had},
		// npm has all of them
		{false, []string{"a", "B_c", "b-c", "b.c", "b_c@2"}, []string{"a==1", "b_c@2", "@s/d@1", "B_c", "b-c", "b.c"}},
		{false, nil, had},
	} {
		if got := mergeRequirements(&sandbox.Installer{Folds: c.folds}, had, c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q: %q", had, c.asked, got)
		}
	}
}

// TestInstallWaits: who waits for another's installation into the same sandbox can still be canceled.
func TestInstallWaits(t *testing.T) {
	x := &Run{sandbox: newSandbox(nil, nil, sandbox.Record{})}
	x.sandbox.locks.installing <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.installPackages(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// heard is a Packager that notes for whom it works.
type heard struct {
	sandbox.Packager
	terms, owner string
	lowered      sandbox.Limits
}

func (h *heard) Supply(_ context.Context, need sandbox.PackageNeed, _ sandbox.Worker) (*sandbox.Supply, error) {
	h.terms, h.lowered = need.Terms, need.Lowered
	return &sandbox.Supply{Layers: []sandbox.Layer{{}}, Release: func() {}}, nil
}

var errShown = errors.New("shown")

func (h *heard) Show(_ sandbox.Layer, _, owner string, record func() error) error {
	h.owner = owner
	return errShown
}

// adding is a run that adds packages to a sandbox.
func adding(s *Sandbox, l sandbox.Language, asked sandbox.Request) *Run {
	x := &Run{sandbox: s, adding: addedPackages{asked: &asked.Packages}}
	x.Run = &plan.Run{Request: asked, Language: &l, Installs: &l}
	return x
}

// TestForWhom: a Packager hears whose work it does, of a run and of a living sandbox.
func TestForWhom(t *testing.T) {
	packages, l := &heard{}, sandbox.Language{
		Name: "l", Installer: &sandbox.Installer{Install: func(string) []string { return nil }}}
	e := &Engine{config: Config{Packages: packages}, stop: t.Context(), admission: newAdmission(1, 1, time.Hour)}
	e.state.dir, e.living = t.TempDir(), newTable(&LivingConfig{})
	e.rules.Store(&plan.Rules{Max: sandbox.Limits{MemoryBytes: 2, DiskBytes: 2}})
	e.config.OwnerLimits = func(string) OwnerLimits {
		return OwnerLimits{Max: sandbox.Limits{MemoryBytes: 1, DiskBytes: 3, Pids: 9}}
	}
	lowered := sandbox.Limits{MemoryBytes: 1, Pids: 9}
	asked := sandbox.Request{Packages: sandbox.Packages{Requirements: []string{"a"}}}
	run := &oneShot{owner: "alice", backend: plainBackend{}, job: job{Run: &plan.Run{Request: asked, Language: &l,
		Installs: &l}}}
	if err := e.supply(t.Context(), run); err != nil ||
		packages.terms != termsOf("alice", plainBackend{}, sandbox.Spec{}) || packages.lowered != lowered {
		t.Errorf("%v, %s, %v", err, packages.terms, packages.lowered)
	}
	packages.lowered = sandbox.Limits{}
	s := newSandbox(e, nil, sandbox.Record{ID: "i", Owner: "bob"})
	if err := adding(s, l, asked).installPackages(t.Context()); !errors.Is(err, errShown) || packages.owner != "bob" ||
		packages.terms != termsOf("bob", nil, sandbox.Spec{}) || packages.lowered != lowered {
		t.Errorf("%v, %q, %s, %v", err, packages.owner, packages.terms, packages.lowered)
	}
}

// halfLinked is a Packager whose last Show failed.
type halfLinked struct{ sandbox.Packager }

func (halfLinked) Linked(string) bool { return false }

var errAsked = errors.New("asked")

func (halfLinked) Supply(context.Context, sandbox.PackageNeed, sandbox.Worker) (*sandbox.Supply, error) {
	return nil, errAsked
}

// TestLivingRepair: what a sandbox is known to have is shown anew if it may be incomplete.
func TestLivingRepair(t *testing.T) {
	has := sandbox.Packages{Requirements: []string{"a"}}
	e := &Engine{config: Config{Packages: halfLinked{}}}
	e.state.dir = t.TempDir()
	s := newSandbox(e, nil, sandbox.Record{ID: "i", Packages: map[string]sandbox.Added{"l": {Packages: has}}})
	l := sandbox.Language{Installer: &sandbox.Installer{Name: "l"}}
	if err := adding(s, l, sandbox.Request{Packages: has}).installPackages(t.Context()); !errors.Is(err, errAsked) {
		t.Errorf("%v", err)
	}
}

// TestLivingLock: a lock would take away what a sandbox has, and be forgotten by the next installation.
func TestLivingLock(t *testing.T) {
	s := newSandbox(&Engine{config: Config{Packages: halfLinked{}}}, nil, sandbox.Record{})
	l := sandbox.Language{Installer: &sandbox.Installer{Install: func(string) []string { return nil }}}
	err := adding(s, l, sandbox.Request{Packages: sandbox.Packages{Lock: "lock"}}).planPackages()
	if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), "one-shot") ||
		sandbox.FixOf(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestTerms: runs of two owners, on two backends or with other waivers have no work in common.
func TestTerms(t *testing.T) {
	waive := func(names ...string) sandbox.Spec { return sandbox.Spec{AllowUnenforced: names} }
	seen := map[string]bool{}
	for _, terms := range []string{termsOf("", nil, waive()), termsOf("a", nil, waive()),
		termsOf("a", plainBackend{}, waive()), termsOf("a", plainBackend{}, waive("cpu")),
		termsOf("a", plainBackend{}, waive("cpu", "pids"))} {
		if seen[terms] {
			t.Errorf("%s twice", terms)
		}
		seen[terms] = true
	}
	if !seen[termsOf("a", plainBackend{}, waive("pids", "cpu", "pids"))] {
		t.Error("the order of waivers matters")
	}
}

type plainBackend struct{ sandbox.Backend }

func (plainBackend) Name() string { return "plain" }

type rooted struct{ sandbox.Backend }

func (rooted) Root(sandbox.Spec) sandbox.Root { return sandbox.Root{Image: "own"} }

func (rooted) ImageOf(_ context.Context, name string, _ sandbox.Fetch) (sandbox.Image, error) {
	return sandbox.Image{Digest: "digest of " + name}, nil
}

// TestRootOf: packages for a backend's own root are not those for the host's.
func TestRootOf(t *testing.T) {
	var plain sandbox.Backend = struct{ sandbox.Backend }{}
	asked := sandbox.Spec{Root: sandbox.Root{Image: "asked"}}
	for _, c := range []struct {
		backend sandbox.Backend
		spec    sandbox.Spec
		root    string
	}{{rooted{}, sandbox.Spec{}, "own"}, {rooted{}, asked, "asked"}, {plain, sandbox.Spec{}, ""}} {
		if root := rootOf(c.backend, c.spec); root.Image != c.root {
			t.Errorf("%+v: %+v", c, root)
		}
	}
}

// variable is a backend whose images have the variables.
type variable struct {
	rooted
	env []string
}

func (v variable) ImageOf(context.Context, string, sandbox.Fetch) (sandbox.Image, error) {
	return sandbox.Image{Digest: "files", Env: v.env}, nil
}

// TestInstallerSettings: an installer gets the variables of an image, so packages for images with the same files and
// other variables are others, and a step does not begin once the image has others.
func TestInstallerSettings(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.resolve(OneShot{Spec: sandbox.Spec{Root: sandbox.Root{Image: "image"}},
		Request: sandbox.Request{Command: []string{"true"}}})
	if err == nil {
		p.backend = variable{env: []string{"A=1"}}
		err = e.enterImage(t.Context(), p, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.imageOf(t.Context(), p.backend, p.Spec, nil); err != nil {
		t.Error(err)
	}
	if other := (sandbox.Root{Digest: p.Spec.Root.Digest, Settings: "other"}); surveyKeyOf("", "", &other) ==
		surveyKeyOf("", "", &p.Spec.Root) {
		t.Error("a survey of an image counts for one with other variables")
	}
	_, err = e.imageOf(t.Context(), variable{env: []string{"A=2"}}, p.Spec, nil)
	if err == nil || sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("with another value: %v", err)
	}
}

type openGate struct{ sandbox.Gate }

func (openGate) Complete(*sandbox.NetworkPolicy) error { return nil }

// TestInstallerCeiling: an installer may reach more than requests, unless an image named its index, also one whose name
// is gone. On an image it keeps its work, and so hands over what it installed.
func TestInstallerCeiling(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Gate: openGate{}, Ceiling: &sandbox.NetworkCeiling{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		installs, indexed bool
		image             string
		root              sandbox.Root
		free              bool
	}{{true, false, "", sandbox.Root{}, true}, {true, true, "d", sandbox.Root{}, true},
		{true, false, "d", sandbox.Root{}, false}, {false, false, "", sandbox.Root{}, false},
		{true, false, "", sandbox.Root{Image: "gone"}, false}, {true, false, "", sandbox.Root{Digest: "d"}, false}} {
		p := &oneShot{given: OneShot{installs: c.installs, indexed: c.indexed,
			Request: sandbox.Request{Command: []string{"true"}}, Spec: sandbox.Spec{Root: c.root,
				Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"index.test"},
					Trusted: []string{"index.test"}}}}}
		p.work = &sandbox.Work{}
		if err := e.plan(p, sandbox.Image{Digest: c.image}); err != nil {
			t.Fatal(err)
		}
		if p.work == nil {
			t.Errorf("%+v: it forgot its work", c)
		}
		n := p.Spec.Network
		if (n.Ceiling == nil) != c.free || c.installs && (len(n.Trusted) > 0) != c.free {
			t.Errorf("%+v: ceiling %v, trusted %v", c, n.Ceiling, n.Trusted)
		}
	}
}

// TestStepsOfOwner: steps of an installation are lowered to what the owner's requests may have, and so are not refused.
func TestStepsOfOwner(t *testing.T) {
	most := sandbox.Limits{Timeout: time.Second, MemoryBytes: 64 << 20}
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, OwnerLimits: func(owner string) OwnerLimits {
		if owner != "key" {
			return OwnerLimits{}
		}
		return OwnerLimits{Max: most}
	}})
	if err != nil {
		t.Fatal(err)
	}
	step := sandbox.Limits{Timeout: time.Minute, MemoryBytes: 4 << 30, DiskBytes: 4 << 30}
	got := e.lowered("key", step)
	if got.Timeout != most.Timeout || got.MemoryBytes != most.MemoryBytes || got.DiskBytes != most.MemoryBytes {
		t.Errorf("%+v", got)
	}
	if got := e.lowered("other", step); got.Timeout != step.Timeout {
		t.Errorf("of another owner: %+v", got)
	}
	s := newSandbox(e, noBoxes{}, sandbox.Record{Owner: "key"})
	_, err = s.planned(RunRequest{Request: sandbox.Request{Command: []string{"true"}, Timeout: time.Minute}})
	if sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), "over the API key's maximum of 1s") {
		t.Errorf("a run in a living sandbox: %v", err)
	}
}

// TestTombstone: nothing large of an ended sandbox is remembered.
func TestTombstone(t *testing.T) {
	short := sandbox.Record{ID: "id", Owner: "key", Reason: reasonRemoved}
	long := short
	long.Spec.Env, long.Contexts = []string{"A=a"}, []sandbox.ContextRecord{{Name: "c"}}
	long.Packages = map[string]sandbox.Added{"python": {Installed: []sandbox.Package{{Name: "p"}}}}
	if got := tombstone(long); !reflect.DeepEqual(got, short) {
		t.Errorf("%+v", got)
	}
}

// TestLargeSurveys: surveys of an image that take much memory count as such, and are not cached.
func TestLargeSurveys(t *testing.T) {
	large := []Surveyed{{Survey: sandbox.LanguageSurvey{Modules: make([]sandbox.Module, maxModules)}}}
	for i := range large[0].Survey.Modules {
		large[0].Survey.Modules[i].Name = strings.Repeat("x", maxModuleName)
	}
	if size := sizeOf(large); size < maxModules*maxModuleName || size <= maxKept {
		t.Errorf("a large survey counts as %d bytes", size)
	}
}

// TestSurveysOfOwners: an owner of many images does not displace the survey of another owner's image.
func TestSurveysOfOwners(t *testing.T) {
	var s surveys
	other := surveyKey{owner: "b", digest: "0"}
	kept := s.of(other)
	for i := range 2 * maxSurveys {
		s.of(surveyKey{owner: "a", digest: strconv.Itoa(i)})
	}
	if len(s.byImage) != maxSurveys || s.of(other) != kept {
		t.Errorf("%d surveys are cached, that of the other owner: %v", len(s.byImage), s.byImage[other] == kept)
	}
}

// TestLacking: a layer has all files of the installer or is not made.
func TestLacking(t *testing.T) {
	file := guest.FileInfo{Path: "a", Type: guest.FileRegular}
	unread, long, more := file, file, guest.FileInfo{Path: ".", Omitted: "more"}
	unread.Err, long.Omitted = "too many open files", "over the limit"
	for _, f := range []*guest.FileInfo{&unread, &long, &more, {Path: "d", Type: guest.FileDir, Err: "denied"}} {
		if lacking(f) == nil {
			t.Errorf("%+v is left out", f)
		}
	}
	for _, f := range []*guest.FileInfo{&file, {Path: "l", Type: guest.FileSymlink}, {Path: "d", Type: guest.FileDir}} {
		if err := lacking(f); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestStepThatLeavesTheQueue: a server does not wait for a step that gave up its place in the queue.
func TestStepThatLeavesTheQueue(t *testing.T) {
	e := &Engine{admission: newAdmission(1, 1, time.Hour)}
	if err := e.admission.acquire(t.Context(), "", func() {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := &Run{sandbox: newSandbox(e, nil, sandbox.Record{})}
	if err := x.inSlot(ctx, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ended := make(chan struct{})
	go func() {
		e.runs.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the engine waits")
	}
}
