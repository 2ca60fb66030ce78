package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestBounds: what a short Dockerfile could make large is refused: variables that double, copies of copies, patterns
// for each file, stages. A build of many steps holds few descriptors.
func TestBounds(t *testing.T) {
	files := map[string]string{".dockerignore": strings.Repeat("a*\n", 900)}
	for i := range 200 {
		files[fmt.Sprintf("d/%d", i)] = "x"
	}
	h := newHouse(t, files)
	lines := func(line string, n int) string { return "FROM base\n" + strings.Repeat(line+"\n", n) }
	pairs := func(n int) (all string) {
		for i := range n {
			all += fmt.Sprintf(" V%d=1", i)
		}
		return all
	}
	for _, c := range []struct{ name, text, want string }{
		{"doubled", "FROM base\nENV A=xxxxxxxxxxxxxxxx\n" + strings.Repeat("ENV A=$A$A\n", 40), "128KiB"},
		{"by an argument", "FROM base\nARG A=xxxxxxxxxxxxxxxx\n" + strings.Repeat("ARG A=$A$A\n", 40), "128KiB"},
		{"in one line", "FROM base\nENV A=" + strings.Repeat("x", 10_000) + "\nENV B=" + strings.Repeat("$A", 4000),
			"too long"},
		{"replaced", "FROM base\nENV A=" + strings.Repeat("x", 10_000) + "\nENV B=${A//x/" +
			strings.Repeat("y", 9000) + "}", "too long"},
		{"nested", "FROM base\nENV A=" + strings.Repeat("${a-", 101) + strings.Repeat("}", 101), "100 references"},
		{"nested base", "FROM " + strings.Repeat("${a-", 101), "100 references"},
		{"nested deeply", "FROM base\nRUN " + strings.Repeat("${a-", 20_000), "10,000 references"},
		{"many words", "FROM base\nENV" + pairs(1001), "1000 words"},
		{"many variables", "FROM base\nENV" + pairs(700) + "\nENV" + strings.ReplaceAll(pairs(700), "V", "W"),
			"1000 variables"},
		{"a long here-document", "FROM base\nRUN <<E\n" + strings.Repeat("\n", 1<<20-100) + "E\n", "many lines"},
		{"many stages", strings.Repeat("FROM base\n", 101), "100 stages"},
		{"copies of a tree", lines("COPY . /x/", 30), "too much work"},
		{"globs", lines("COPY d*/1* /x/", 30), "too much work"},
	} {
		h.MaxWork = 2_000_000
		_, _, err := h.build(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	before := openFiles(t)
	b := &build{Builder: &h.Builder, want: &Build{Limits: sandbox.Limits{}}, held: map[string]*hold{}}
	st := &state{}
	for i := range 20 {
		if err := b.workdirTo(st, fmt.Sprintf("/w%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.held); n != 1 || openFiles(t) > before+2 {
		t.Errorf("20 steps hold %d trees, and %d files", n, openFiles(t)-before)
	}
}

// TestLayerWork: the links to the files of parents, and what commands made, are work of the server.
func TestLayerWork(t *testing.T) {
	h := newHouse(t, nil)
	text := "FROM base\n"
	for i := range 60 {
		text += fmt.Sprintf("RUN %d\n", i)
	}
	h.MaxWork = 10_000
	if _, _, err := h.build(text); err == nil || !strings.Contains(err.Error(), "too much work") || len(h.runs) < 5 {
		t.Errorf("%v after %d steps", err, len(h.runs))
	}
}

// TestCharge: a build is charged for the files that it hashes and for the layers that it makes. One whose steps are
// cached is charged for the hashes and for its name.
func TestCharge(t *testing.T) {
	h := newHouse(t, map[string]string{"large": strings.Repeat("x", 5<<20)})
	var mu sync.Mutex
	charged := func() (all time.Duration) {
		_, _, err := h.build("FROM base\nCOPY large /\n", func(b *Build) {
			b.Charge = func(used time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				all += used
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	once := 5 << 20 / hashedBytes * workTime
	if made := charged(); made < 2*once {
		t.Errorf("%s to make what is hashed in %s", made, once)
	}
	if cached := charged(); cached < once || cached > once*3/2 {
		t.Errorf("%s to find what is hashed in %s", cached, once)
	}
}

// TestChargeOfText: reading a Dockerfile is charged, also of one that is refused.
func TestChargeOfText(t *testing.T) {
	charged := time.Duration(0)
	request := Build{Dockerfile: []byte("FROM scratch\nRUN" + strings.Repeat(" <<A", 1000) +
		strings.Repeat("\nA", 1000) +
		"\nNONE"), Charge: func(used time.Duration) { charged += used }}
	if _, err := (&Builder{}).Build(t.Context(), request); err == nil || charged == 0 {
		t.Errorf("%v, charged %s", err, charged)
	}
}

// TestGlobWork: a pattern pays for each entry that it reads, and ends with the build.
func TestGlobWork(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.Symlink(".", fmt.Sprintf("%s/%d", dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := &collector{ctx: ctx, root: root, build: &build{want: &Build{}, Builder: &Builder{MaxWork: 7_000_000}}}
	if names, err := c.match("*/1[0-9]"); err != nil || len(names) != 200 {
		t.Errorf("%d names, %v", len(names), err)
	}
	if _, err := c.match("*/*/*/*/*/none*"); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("without a match: %v", err)
	}
	cancel()
	c.build.work = 0
	if _, err := c.match("*/*"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func (b *build) workdirTo(st *state, dir string) error {
	_, err := b.workdir(context.Background(), st, dir)
	return err
}

func openFiles(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestIgnoredBounds: a .dockerignore is short, and comparing a name with it counts as the work that it is.
func TestIgnoredBounds(t *testing.T) {
	read := func(text string) (*ignored, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return readIgnored(dir)
	}
	for _, text := range []string{strings.Repeat("?a\n", 1001), strings.Repeat("a", 64<<10) + "\nb"} {
		if _, err := read(text); sandbox.KindOf(err) != sandbox.TooLarge {
			t.Errorf("%.10q... of %d bytes: %v", text, len(text), err)
		}
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, ".dockerignore"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := readIgnored(folder); sandbox.KindOf(err) != sandbox.Invalid || strings.Contains(err.Error(), folder) {
		t.Errorf("a folder: %v", err)
	}
	deep := strings.Repeat(strings.Repeat("a", 250)+"/", 16) + "a"
	measured := map[string]int64{strings.Repeat("*a", 500) + "b": 120_000, "**/*.go": 12_000}
	for pattern, least := range measured {
		i, err := read(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if work := i.work(deep); work < least {
			t.Errorf("%.10q: %d, of %d", pattern, work, least)
		}
	}
	i, err := read(strings.Repeat("node_modules\n*.log\n", 25))
	if err != nil {
		t.Fatal(err)
	}
	if work := i.work("src/components/button.go"); work > 3*itemWork {
		t.Errorf("a usual name costs %d", work)
	}
}

// TestCopyNames: the names that one COPY keeps are bounded.
func TestCopyNames(t *testing.T) {
	c := &collector{build: &build{want: &Build{}, Builder: &Builder{MaxWork: ServerWork,
		Images: &image.Store{Limits: image.DefaultLimits}}}}
	const size = 4000
	for range maxNames/size + 2 {
		c.add(item{name: "a", source: strings.Repeat("a", size)})
	}
	if sandbox.KindOf(c.err) != sandbox.TooLarge || len(c.list) > maxNames/size {
		t.Errorf("%d files: %v", len(c.list), c.err)
	}
}

// shows is a backend that shows an image if a request names none.
type shows struct {
	builders
	sandbox.Rooted
}

func (shows) Root(sandbox.Spec) sandbox.Root { return sandbox.Root{Image: "python:3.12-slim"} }

// TestDefaultName: a key cannot build the image that requests of others show without naming it.
func TestDefaultName(t *testing.T) {
	h := newHouse(t, nil)
	h.Backends = append(h.Backends, shows{})
	for owner, kind := range map[string]sandbox.Kind{"": sandbox.Internal, "alice": sandbox.Exists} {
		_, err := h.Build(t.Context(), Build{Name: "docker.io/library/python:3.12-slim", Owner: owner,
			Steps: []Step{{From: "base"}, {Env: "A=1"}}})
		if (err == nil) != (owner == "") || err != nil && sandbox.KindOf(err) != kind {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
}
