package template

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// house has a store with the image base, and builders that record their commands: each adds a file with its own text.
type house struct {
	Builder
	t       *testing.T
	context string
	runs    []string // commands with user, directory and environment
	backend string   // of the last one
	status  sandbox.Status
}

func newHouse(t *testing.T, files map[string]string) *house {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, NOT TESTED: unpacking images needs Linux")
	}
	store, err := image.Open(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	write(t, root, map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/var/www:/bin/sh\n",
		"etc/group": "data:x:50:\n", "srv/old": "old"})
	if _, err := store.Import(context.Background(), root, "base", nil); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, context: t.TempDir(), status: sandbox.StatusSucceeded,
		Builder: Builder{Images: store, Backends: []sandbox.Backend{builders{}}}}
	h.Run = h.run
	write(t, h.context, files)
	return h
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if target, isLink := strings.CutPrefix(content, "->"); isLink && err == nil {
			err = os.Symlink(target, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// builders is a backend with all features. No sandbox is made: the test replaces the engine.
type builders struct{ sandbox.Backend }

func (builders) Name() string { return "native" }

func (h *house) run(_ context.Context, run engine.OneShot) (*sandbox.Result, error) {
	command := run.Request.Command[len(run.Request.Command)-1]
	h.backend = run.Backend
	h.runs = append(h.runs, fmt.Sprintf("%s %s %s %s", command, run.Spec.User, run.Request.Dir, run.Spec.Env))
	result := &sandbox.Result{Status: h.status, ExitCode: 3}
	if h.status != sandbox.StatusSucceeded {
		return result, nil
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := w.WriteHeader(&tar.Header{Name: "ran/" + command, Typeflag: tar.TypeReg, Mode: 0o644})
	return result, errors.Join(err, w.Close(), run.Changes(io.Reader(&layer)))
}

func (h *house) build(dockerfile string, more ...func(*Build)) (files []string, i image.Image, err error) {
	h.t.Helper()
	h.runs = nil
	request := Build{Name: "made", Dockerfile: []byte(dockerfile), Context: h.context}
	for _, change := range more {
		change(&request)
	}
	if i, err = h.Build(context.Background(), request); err != nil {
		return nil, i, err
	}
	dir := h.Images.Files(i.Tree)
	err = filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(file, dir+"/etc/") {
			return err
		}
		name := strings.TrimPrefix(file, dir+"/")
		if target, err := os.Readlink(file); err == nil {
			name += "->" + target
		}
		files = append(files, name)
		return nil
	})
	return files, i, err
}

// TestCopy: COPY places files as Docker does, leaves out what .dockerignore lists, and copies links as links.
func TestCopy(t *testing.T) {
	h := newHouse(t, map[string]string{"a": "a", "b.txt": "b", "d/x": "x", "d/deep/y": "y", "d/no": "no", "link": "->a",
		"out": "->/etc/passwd", ".dockerignore": "d/no\nhidden*\n!hidden-not\n", "hidden": "", "hidden-not": ""})
	for lines, want := range map[string]string{
		"COPY a /n":                     "n srv/old",
		"COPY a /n/":                    "n/a srv/old",
		"COPY a srv":                    "srv/a srv/old",
		"WORKDIR /w\nCOPY a b.txt .":    "srv/old w/a w/b.txt",
		"COPY d /n":                     "n/deep/y n/x srv/old",
		"COPY d/ /srv/":                 "srv/deep/y srv/old srv/x",
		"COPY *.txt hidden* /n/":        "n/b.txt n/hidden-not srv/old",
		"COPY link out /n/":             "n/link->a n/out->/etc/passwd srv/old",
		"COPY <<EOF /n\nx\nEOF":         "n srv/old",
		"ENV P=/n\nCOPY a ${P}/${Q:-q}": "n/q srv/old",
	} {
		files, _, err := h.build("FROM base\n" + lines)
		if got := strings.Join(files, " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", lines, got, err, want)
		}
	}
	write(t, h.context, map[string]string{"t.tar.gz": "\x1f\x8b\x08", "d/up": "->../.."})
	for lines, want := range map[string]string{
		"COPY ../x /":             "outside the folder",
		"COPY d/up/x /":           "line 2",
		"COPY none /":             "is not there",
		"COPY hidden /":           "or .dockerignore leaves it out",
		"COPY a /n\nCOPY [ /":     "line 3",
		"ADD t.tar.gz /":          "is an archive",
		"COPY --from=none:no a /": "is not on this machine",
		"COPY --chown=nobody a /": "no user \"nobody\"",
		"COPY --chmod=9 a /":      "is not octal",
	} {
		_, _, err := h.build("FROM base\n" + lines)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Dockerfile line ") {
			t.Errorf("%s: %v; want %s", lines, err, want)
		}
	}
}

// TestState: a command runs with the user, the directory and the variables of the instructions before it, and the image
// has the configuration of the last stage.
func TestState(t *testing.T) {
	h := newHouse(t, nil)
	text := "ARG WHO=web\nFROM base AS one\nENV A=1\nARG WHO\nARG B=${A}2\nRUN first\nFROM one\nUSER $WHO:data\n" +
		"WORKDIR /w\n" +
		"WORKDIR x\nENV USER=$A HOME=/h\nRUN second\nUSER web\nCMD go\nENTRYPOINT [\"e\"]\nCMD [\"c\"]"
	_, i, err := h.build(text)
	if err == nil || !strings.Contains(err.Error(), "no user") { // WHO is not in scope of the second stage
		t.Error(err)
	}
	_, i, err = h.build(strings.Replace(text, "USER $WHO", "ARG WHO\nUSER $WHO", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"second 33:50 /w/x [WHO=web A=1 USER=1 HOME=/h PATH=" + DefaultPath + "]"}
	if !slices.Equal(h.runs, want) { // the first one is cached
		t.Errorf("it ran\n%q, want\n%q", h.runs, want)
	}
	c := i.Config
	if c.User != "web" || c.Dir != "/w/x" || !slices.Equal(c.Command, []string{"c"}) ||
		!slices.Equal(c.Entrypoint, []string{"e"}) || !slices.Equal(c.Env, []string{"A=1", "USER=1", "HOME=/h"}) {
		t.Errorf("the configuration is %+v", c)
	}
}

// TestCache: a second build repeats what follows a change, and nothing else.
func TestCache(t *testing.T) {
	h := newHouse(t, map[string]string{"a": "1", "other": "1"})
	text := "FROM base\nARG V=1\nRUN one\nCOPY a /\nRUN two\n"
	builds := []struct {
		name   string
		change func(*Build)
		want   string
	}{
		{"first", func(*Build) {}, "one two"},
		{"again", func(*Build) {}, ""},
		{"another file", func(*Build) { write(t, h.context, map[string]string{"other": "2"}) }, ""},
		{"a copied file", func(*Build) { write(t, h.context, map[string]string{"a": "2"}) }, "two"},
		{"an argument", func(b *Build) { b.Args = map[string]string{"V": "2"} }, "one two"},
		{"the last line", func(b *Build) { b.Dockerfile = append(b.Dockerfile, "RUN three"...) }, "three"},
		{"without a cache", func(b *Build) { b.NoCache = true }, "one two"},
	}
	for _, test := range builds {
		if _, _, err := h.build(text, test.change); err != nil {
			t.Fatal(err)
		}
		var ran []string
		for _, r := range h.runs {
			command, _, _ := strings.Cut(r, " ")
			ran = append(ran, command)
		}
		if got := strings.Join(ran, " "); got != test.want {
			t.Errorf("%s: it ran %q, want %q", test.name, got, test.want)
		}
	}
	if _, _, err := h.Images.Prune(0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.build(strings.Replace(text, "FROM base", "FROM scratch\nCOPY a /base", 1)); err != nil ||
		len(h.runs) != 2 {
		t.Errorf("after all trees were pruned it ran %q, %v", h.runs, err)
	}
}

// TestStepsOfOwner: a build does not reveal what another owner has copied.
func TestStepsOfOwner(t *testing.T) {
	h := newHouse(t, map[string]string{"a": "a guess"})
	for n, owner := range []string{"alice", "alice", "bob"} {
		cached := 0
		_, _, err := h.build("FROM base\nCOPY a /\nWORKDIR /w", func(b *Build) {
			b.Name, b.Owner = owner, owner
			b.Report = func(e Event) {
				if e.Step > 1 && e.Cached {
					cached++
				}
			}
		})
		if want := 2 * (n % 2); err != nil || cached != want {
			t.Errorf("build %d of %s: %d cached steps, want %d: %v", n, owner, cached, want, err)
		}
	}
}

// TestRemovedTree: a build whose tree was removed before the build held it can be tried again.
func TestRemovedTree(t *testing.T) {
	b := &build{Builder: &newHouse(t, nil).Builder, held: map[string]*hold{}}
	if err := b.hold(strings.Repeat("a", 64)); sandbox.KindOf(err) != sandbox.Busy {
		t.Error(err)
	}
}

// other is builders of another name.
type other struct{ builders }

func (other) Name() string { return "other" }

// TestBackend: a build runs on the backend that it names, or else on the strongest that works, which one probe finds.
func TestBackend(t *testing.T) {
	h := newHouse(t, nil)
	h.Backends = append(h.Backends, other{})
	probes := 0
	working := func(name string) func(context.Context, string) engine.Probed {
		return func(_ context.Context, backend string) engine.Probed {
			probes++
			p := engine.Probed{Backend: backend, Posture: sandbox.Posture{Kernel: sandbox.KernelShared}}
			if backend == "other" {
				p.Posture.Kernel = sandbox.KernelUserSpace
			}
			if name != "all" && name != backend {
				p.Err = errors.New("does not work here")
			}
			return p
		}
	}
	for _, c := range []struct {
		named, works, want string
		probes             int
	}{{"native", "all", "native", 0}, {"", "native", "native", 2}, {"", "all", "other", 2},
		{"other", "none", "other", 0}, {"", "none", "native", 2}} {
		h.Probe, h.chosen.name, probes = working(c.works), "", 0
		for range 2 { // a server makes more than one build
			_, _, err := h.build("FROM base\nRUN one", func(b *Build) { b.Backend, b.NoCache = c.named, true })
			if err != nil || h.backend != c.want {
				t.Errorf("%+v: it ran on %q, %v", c, h.backend, err)
			}
		}
		if c.works == "none" && c.named == "" {
			c.probes *= 2
		}
		if probes != c.probes {
			t.Errorf("%+v: %d probes", c, probes)
		}
	}
	h.chosen.name, probes = "", 0
	if _, _, err := h.build("FROM base\nRUN one"); err != nil || probes > 0 {
		t.Errorf("a cached build: %v, %d probes", err, probes)
	}
}

// TestBackendOfAll: a client that leaves during the probe, or a backend that does not work for a while, does not choose
// the backend of later builds.
func TestBackendOfAll(t *testing.T) {
	h := newHouse(t, nil)
	h.Backends = append(h.Backends, other{})
	ctx, leave := context.WithCancel(t.Context())
	fails := false
	h.Probe = func(ctx context.Context, backend string) engine.Probed {
		leave()
		p := engine.Probed{Backend: backend, Posture: sandbox.Posture{Kernel: sandbox.KernelShared}}
		if backend == "other" {
			p.Posture.Kernel, p.Err = sandbox.KernelUserSpace, ctx.Err()
		}
		if backend == "other" && fails {
			p.Err = errors.New("no memory")
		}
		return p
	}
	if name := h.choose(ctx); name != "other" {
		t.Errorf("for a client that leaves: %s", name)
	}
	fails, h.chosen.name = true, ""
	if name := h.choose(ctx); name != "native" {
		t.Errorf("while a backend does not work: %s", name)
	}
	fails = false
	if name := h.choose(ctx); name != "native" {
		t.Errorf("soon after: %s", name)
	}
	h.chosen.until = time.Now()
	if name := h.choose(ctx); name != "other" {
		t.Errorf("later: %s", name)
	}
}

// TestFailure: a failed command fails the build, which leaves the earlier image of the name.
func TestFailure(t *testing.T) {
	h := newHouse(t, nil)
	_, before, err := h.build("FROM base\nRUN good")
	if err != nil {
		t.Fatal(err)
	}
	h.status = sandbox.StatusFailed
	_, _, err = h.build("FROM base\nRUN bad")
	var failed *Failed
	if !errors.As(err, &failed) || failed.Line != 2 || err.Error() != "Dockerfile line 2: RUN bad: exit status 3" {
		t.Error(err)
	}
	if after, err := h.Images.Find("made"); err != nil || after.Tree != before.Tree {
		t.Errorf("the image is %+v, %v", after, err)
	}
	for name, change := range map[string]func(*Build){
		"a name":     func(b *Build) { b.Name = "NOT A NAME" },
		"no request": func(b *Build) { b.Name = "../../made" },
		"an ARG":     func(b *Build) { b.Args = map[string]string{"NONE": "1"} },
		"a backend":  func(b *Build) { b.Backend = "gvisor" },
		"no files":   func(b *Build) { b.Dockerfile = []byte("FROM scratch") },
		"a check":    func(b *Build) { b.Ready = "80" },
		"a port":     func(b *Build) { b.Start, b.Ready = "x", "65536" },
		"first step": func(b *Build) { b.Dockerfile, b.Steps = nil, []Step{{Run: "x"}} },
		"a copy":     func(b *Build) { b.Dockerfile, b.Steps = nil, []Step{{From: "base"}, {Copy: "a"}} },
	} {
		if _, _, err := h.build("FROM base", change); err == nil || sandbox.KindOf(err) == sandbox.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStart: an image has the start command of its build or of its base, also after an export and an import.
func TestStart(t *testing.T) {
	h := newHouse(t, nil)
	for _, c := range []struct{ dockerfile, start, ready, want string }{
		{"FROM base", "", "", "<nil>"},
		{"FROM base\nSHELL [\"bash\", \"-c\"]", "run it", "80", "{[bash -c run it] [] 80}"},
		{"FROM made", "", "", "{[bash -c run it] [] 80}"},
		{"FROM made", "", "look <here>", "{[bash -c run it] [/bin/sh -c look <here>] 0}"},
		{"FROM made", `["/other", "x"]`, "", "{[/other x] [] 0}"},
		{"FROM base", `["/other", "x"]`, `["/check"]`, "{[/other x] [/check] 0}"},
		{"FROM base", "[ -e /x ] && run", "", "{[/bin/sh -c [ -e /x ] && run] [] 0}"},
	} {
		_, i, err := h.build(c.dockerfile, func(b *Build) { b.Start, b.Ready = c.start, c.ready })
		file := filepath.Join(t.TempDir(), "made.tar")
		if err == nil {
			err = h.Images.Export(context.Background(), "made", file)
		}
		var back image.Image
		if err == nil {
			back, err = h.Images.Import(context.Background(), file, "back", nil)
		}
		for _, start := range []*sandbox.Start{i.Config.Start, back.Config.Start} {
			if got := strings.TrimPrefix(fmt.Sprint(start), "&"); err != nil || got != c.want {
				t.Errorf("%+v: %s, %v", c, got, err)
			}
		}
	}
}

// TestFetchInTurn: a build fetches a missing base image as Fetch permits it to its owner.
func TestFetchInTurn(t *testing.T) {
	h := newHouse(t, nil)
	refused, asked := errors.New("no slot"), ""
	h.Fetch = func(owner string) sandbox.Fetch {
		asked = owner
		return func(context.Context, func(context.Context) error) error { return refused }
	}
	_, err := h.Build(t.Context(), Build{Name: "made", Owner: "key", Dockerfile: []byte("FROM missing\nRUN true\n")})
	if !errors.Is(err, refused) || asked != "key" {
		t.Errorf("%v for %q", err, asked)
	}
}
