package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/lang"
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
		{false, []string{"a", "B_c", "b-c", "b.c", "b_c@2"}, []string{"a==1", "b_c@2", "@s/d@1", "B_c", "b-c", "b.c"}}, // npm has all of them
		{false, nil, had},
	} {
		if got := mergeRequirements(&sandbox.Installer{Folds: c.folds}, had, c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q: %q", had, c.asked, got)
		}
	}
}

// TestInstallWaits: who waits for another's installation into the same sandbox can still be canceled.
func TestInstallWaits(t *testing.T) {
	x := &Execution{sandbox: newSandbox(nil, sandbox.Record{})}
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
}

func (h *heard) Supply(_ context.Context, need sandbox.PackageNeed, _ sandbox.Worker) (*sandbox.Supply, error) {
	h.terms = need.Terms
	return &sandbox.Supply{Layers: []sandbox.Layer{{}}, Release: func() {}}, nil
}

var errShown = errors.New("shown")

func (h *heard) Show(_ sandbox.Layer, _, owner string) error {
	h.owner = owner
	return errShown
}

// adding is an execution that adds packages to a sandbox.
func adding(s *Sandbox, l sandbox.Language, asked sandbox.Request) *Execution {
	s.live = &live{engine: s.engine}
	x := &Execution{sandbox: s, adds: plannedPackages{asked: &asked.Packages}}
	x.live, x.Execution = s.live, &plan.Execution{Request: asked, Language: &l}
	return x
}

// TestForWhom: a Packager hears whose work it does, of a run and of a living sandbox.
func TestForWhom(t *testing.T) {
	packages, l := &heard{}, sandbox.Language{Name: "l", Installer: &sandbox.Installer{Install: func(string) []string { return nil }}}
	e := &Engine{config: Config{Packages: packages}, stop: t.Context()}
	e.state.dir = t.TempDir()
	asked := sandbox.Request{Packages: sandbox.Packages{Requirements: []string{"a"}}}
	run := &oneShot{owner: "alice", backend: plainBackend{}, job: job{Execution: &plan.Execution{Request: asked, Language: &l}}}
	if err := e.supply(t.Context(), run); err != nil || packages.terms != termsOf("alice", plainBackend{}, sandbox.Spec{}) {
		t.Errorf("%v, %s", err, packages.terms)
	}
	s := newSandbox(e, sandbox.Record{ID: "i", Owner: "bob"})
	if err := adding(s, l, asked).installPackages(t.Context()); !errors.Is(err, errShown) || packages.owner != "bob" || packages.terms != termsOf("bob", nil, sandbox.Spec{}) {
		t.Errorf("%v, %q, %s", err, packages.owner, packages.terms)
	}
}

// halfShown is a Packager whose last Show failed.
type halfShown struct{ sandbox.Packager }

func (halfShown) Shown(string) bool { return false }

var errAsked = errors.New("asked")

func (halfShown) Supply(context.Context, sandbox.PackageNeed, sandbox.Worker) (*sandbox.Supply, error) {
	return nil, errAsked
}

// TestLivingRepair: what a sandbox is known to have is shown anew if it may be incomplete.
func TestLivingRepair(t *testing.T) {
	has := sandbox.Packages{Requirements: []string{"a"}}
	e := &Engine{config: Config{Packages: halfShown{}}}
	e.state.dir = t.TempDir()
	s := newSandbox(e, sandbox.Record{ID: "i", Packages: map[string]sandbox.Added{"l": {Packages: has}}})
	l := sandbox.Language{Installer: &sandbox.Installer{Name: "l"}}
	if err := adding(s, l, sandbox.Request{Packages: has}).installPackages(t.Context()); !errors.Is(err, errAsked) {
		t.Errorf("%v", err)
	}
}

// TestLivingLock: a lock would take away what a sandbox has, and be forgotten by the next installation.
func TestLivingLock(t *testing.T) {
	s := newSandbox(&Engine{config: Config{Packages: halfShown{}}}, sandbox.Record{})
	l := sandbox.Language{Installer: &sandbox.Installer{Install: func(string) []string { return nil }}}
	err := adding(s, l, sandbox.Request{Packages: sandbox.Packages{Lock: "lock"}}).planPackages()
	if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), "one that lives") || sandbox.FixOf(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestPackageHints: a hint offers packages in the way that each face and language has, and none where no package would help.
func TestPackageHints(t *testing.T) {
	l := &live{box: boundBox{}, engine: &Engine{config: Config{Languages: lang.All(), Packages: halfShown{}}}}
	none, auto := sandbox.Packages{}, sandbox.Packages{Auto: true}
	const python, node = "ModuleNotFoundError: No module named ", "Error: Cannot find module "
	const cannot = "A package cannot be installed: use another one"
	for _, c := range []struct {
		language, stderr string
		asked            sandbox.Packages
		cli, http, tool  string
	}{
		{"python", python + "'yaml.x'", none, "before the run, add --packages auto. Code", `add "packages": ["auto"]. Code`, "before the run, write a line %pip install pyyaml in the code. Code"},
		{"python", python + "'yaml.x'", auto, "auto does not take it for needed. To have it installed before the run, add --packages pyyaml.", `add "packages": ["pyyaml"].`, "%pip install pyyaml"},
		{"python", python + "'_x'", auto, "add --packages NAME.", `["NAME"]`, "%pip install NAME in"},
		{"javascript", node + "'lodash/fp'", none, "add --packages auto.", `["auto"]`, cannot},
		{"typescript", node + "'@s/x.js/y'", auto, "add --packages @s/x.js.", `["@s/x.js"]`, cannot},
		{"python", "fatal: no yaml", auto, "stderr says why. Packages that the code seems to do without were not installed: pyyaml, rich. To have one, add --packages NAME.", `add "packages": ["NAME"].`, "pyyaml, rich."},
		{"javascript", node + "'./util'\nRequire stack:\n- /workspace/main.js", none, "A file was not found: only files that were sent", `Send it in "files".`, "with write_file."},
		{"perl", python + "'x'", none, cannot, cannot, cannot},
		{"", python + "'x'", none, cannot, cannot, cannot},
		{"python", python + "'tkinter'", none, "The module tkinter is of the standard library. It is in the Debian package python3-tk, which", "python3-tk", "python3-tk"},
		{"python", python + "'distutils.core'", auto, "Debian package python3-distutils, which", "python3-distutils", "python3-distutils"},
		{"", python + "'_gdbm'", none, "Debian package python3-gdbm, which", "python3-gdbm", "python3-gdbm"},
		{"javascript", node + "'tkinter'", none, "add --packages auto.", `["auto"]`, cannot},
		{"python", "ERROR: No matching distribution found for x", none, "Packages for Python 3 are installed before its code runs: add --packages NAME.", `add "packages": ["NAME"].`, "%pip install NAME in the code."},
		{"bash", "main.sh: line 1: pip: command not found", none, "Packages for Python 3 are installed before its code runs: add", "Python 3", "%pip install NAME"},
		{"javascript", "npm error code EAI_AGAIN", none, "npm cannot install anything: a sandbox has no network. Packages for JavaScript (Node) are", `["NAME"]`, "read-only. Use what is there"},
		{"bash", "main.sh: line 1: apt-get: command not found", none, "read-only. Use what is there", "Use what", "Use what"},
	} {
		x := &execution{live: l, output: newOutput(1<<20, nil), job: job{Execution: &plan.Execution{Spec: sandbox.Spec{Limits: sandbox.DefaultLimits, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}}}}
		x.Request.Packages = c.asked
		if c.asked.Auto {
			x.optional = []string{"pyyaml", "rich"}
		}
		for _, known := range lang.All() {
			if known.Name == c.language {
				x.Language = &known
			}
		}
		hints := x.hints(&outcome{}, &sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 1, Stderr: sandbox.Captured{Head: []byte(c.stderr)}})
		for i, want := range []string{c.cli, c.http, c.tool} {
			if got := []answer.Face{answer.CommandLine, answer.HTTP, answer.Tool}[i].Hint(hints); !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q does not say %q", c.language, c.stderr, got, want)
			}
		}
	}
}

// TestTerms: runs of two owners, on two backends or with other waivers have no work in common.
func TestTerms(t *testing.T) {
	waive := func(names ...string) sandbox.Spec { return sandbox.Spec{AllowUnenforced: names} }
	seen := map[string]bool{}
	for _, terms := range []string{termsOf("", nil, waive()), termsOf("a", nil, waive()), termsOf("a", plainBackend{}, waive()), termsOf("a", plainBackend{}, waive("cpu")),
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

func (rooted) RootID(_ context.Context, image string) string { return "id of " + image }

// TestRootOf: packages for a backend's own root are not those for the host's.
func TestRootOf(t *testing.T) {
	var plain sandbox.Backend = struct{ sandbox.Backend }{}
	asked := sandbox.Spec{Root: sandbox.Root{Image: "asked"}}
	for _, c := range []struct {
		backend  sandbox.Backend
		spec     sandbox.Spec
		root, id string
	}{{rooted{}, sandbox.Spec{}, "own", "id of own"}, {rooted{}, asked, "asked", "id of asked"}, {plain, sandbox.Spec{}, "", ""}} {
		root, id := rootOf(c.backend, c.spec)
		if root.Image != c.root || (id == nil) != (c.id == "") || id != nil && id(t.Context()) != c.id {
			t.Errorf("%+v: %+v", c, root)
		}
	}
}
