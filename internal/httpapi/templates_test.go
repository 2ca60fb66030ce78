package httpapi_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/template"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// builders is a backend with all features.
type builders struct{ sandbox.Backend }

// failing runs no command: each writes a line and fails.
func failing(_ context.Context, run engine.OneShot) (*sandbox.Result, error) {
	run.Request.Output(sandbox.Stdout, []byte("a line\n"))
	return &sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 3}, nil
}

// TestTemplates: a server with templates builds them of files, as events too, within its space and for the owner of the
// name; another server refuses.
func TestTemplates(t *testing.T) {
	store, err := image.Open(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	store.Space = 140_000
	b := &template.Builder{Images: store, Run: failing, Backends: []sandbox.Backend{builders{backendtest.NewFake(t)}},
		Allowed: func(_, name string) bool { return name != "hidden" }}
	alice, _ := httpd.NewKey("alice", strings.Repeat("a", 32))
	bob, _ := httpd.NewKey("bob", strings.Repeat("b", 32))
	r := newStoringRig(t, engine.Config{}, httpd.Config{Keys: httpd.NewKeyring(alice, bob)},
		httpapi.Stores{Templates: b})
	as := func(key string) header { return header{"X-API-Key": strings.Repeat(key, 32)} }
	body := func(name, dockerfile string) string {
		return jsonOf(object{"name": name, "dockerfile": dockerfile,
			"files": []object{{"path": "d/a", "content": strings.Repeat("x", 6000)}}})
	}
	const path = "/v1/templates"
	for _, cached := range []int{1, 2} { // FROM always is
		res, text := r.do("POST", path, body("made", "FROM scratch\nCOPY d /"), as("a"))
		made := parse[api.Template](t, text)
		if res.StatusCode != http.StatusOK || made.Name != "docker.io/library/made:latest" || made.Bytes != 8192 ||
			made.Steps != 2 || made.CachedSteps != cached {
			t.Errorf("%s: %s", res.Status, text)
		}
	}
	events := header{"X-API-Key": strings.Repeat("a", 32), "Accept": api.MediaEvents}
	_, text := r.do("POST", path, body("made", "FROM made\nENV A=1"), events)
	if !strings.Contains(text, "event: progress") || !strings.Contains(text, `"text":"[2/2] ENV A=1"`) ||
		!strings.Contains(text, "event: done") || !strings.Contains(text, `"steps":2`) {
		t.Errorf("the events are %s", text)
	}
	_, text = r.do("POST", path, body("made", "FROM made\nRUN x"), events)
	if !strings.Contains(text, `"text":"a line\n"`) || !strings.Contains(text, "event: problem") ||
		!strings.Contains(text, "Dockerfile line 2: RUN x: exit status 3") {
		t.Errorf("the events are %s", text)
	}
	for _, test := range []struct {
		body   string
		by     header
		status int
		detail string
	}{
		{body("made", "FROM scratch\nCOPY d /"), as("b"), 409, "made is taken"},
		{body("made@sha256:"+strings.Repeat("a", 64), "FROM scratch\nCOPY d /"), as("b"), 400, "has a digest"},
		{body("hidden", "FROM scratch\nCOPY d /"), as("b"), 400, "does not offer"},
		{body("more", "FROM scratch\nCOPY d /w\nCOPY d /x\nCOPY d /y"), as("b"), 403, "one API key may take 68.4KiB"},
		{body("more", "FETCH x"), as("b"), 400, "unknown instruction"},
		{body("more", "FROM none"), as("b"), 404, "not on this machine"},
		{jsonOf(object{"name": "x"}), as("b"), 400, "either dockerfile or steps"},
		{jsonOf(object{"name": "x", "steps": []object{{"run": "x"}}}), as("b"), 400, "must name the base image"},
		{jsonOf(object{"name": "x", "dockerfile": "FROM made", "files": []object{{"path": "../a", "content": ""}}}),
			as("b"), 400, "files[0].path"},
	} {
		if p := r.refused("POST", path, test.body, test.by, test.status); !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s: %s", short(test.body), p.Detail)
		}
	}
	res, text := r.do("POST", path, body("third", "FROM scratch\nCOPY d /z"), as("a"))
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", res.Status, text)
	}
	none := newRig(t, engine.Config{}, httpd.Config{})
	none.refused("POST", path, body("made", "FROM scratch\nCOPY d /"), nil, 422)
}

// TestWaitingBuilds: the files of builds that wait are bounded for each key, and are gone once the builds have ended.
func TestWaitingBuilds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	store, err := image.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	going, rest := make(chan struct{}, 8), make(chan struct{})
	b := &template.Builder{Images: store, Backends: []sandbox.Backend{builders{backendtest.NewFake(t)}},
		Run: func(_ context.Context, run engine.OneShot) (*sandbox.Result, error) {
			going <- struct{}{}
			<-rest
			return &sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 3}, nil
		}}
	alice, _ := httpd.NewKey("alice", strings.Repeat("a", 32))
	bob, _ := httpd.NewKey("bob", strings.Repeat("b", 32))
	r := newStoringRig(t, engine.Config{}, httpd.Config{Keys: httpd.NewKeyring(alice, bob)},
		httpapi.Stores{Templates: b})
	body := func(dockerfile string) string {
		return jsonOf(object{"name": "made", "dockerfile": dockerfile,
			"files": []object{{"path": "a", "content": "x"}}})
	}
	const waits = "FROM scratch\nCOPY a /\nRUN x"
	asAlice, asBob := header{"X-API-Key": strings.Repeat("a", 32)}, header{"X-API-Key": strings.Repeat("b", 32)}
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() { r.do("POST", "/v1/templates", body(waits), asAlice) })
	}
	for range 7 {
		<-going
	}
	p := r.refused("POST", "/v1/templates", body(waits), asAlice, 429)
	if !strings.Contains(p.Detail, "too many builds") {
		t.Error(p.Detail)
	}
	if res, text := r.do("POST", "/v1/templates", body("FROM scratch\nCOPY a /"), asBob); res.StatusCode != 200 {
		t.Errorf("another key: %s", text)
	}
	close(rest)
	all.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, "work")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFilesWork: each file of a template is work, also of a build that fails at once.
func TestFilesWork(t *testing.T) {
	store, err := image.Open(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	b := &template.Builder{Images: store, Run: failing, Backends: []sandbox.Backend{builders{backendtest.NewFake(t)}}}
	r := newStoringRig(t, engine.Config{}, httpd.Config{}, httpapi.Stores{Templates: b})
	files := make([]object, 300)
	for i := range files {
		files[i] = object{"path": strconv.Itoa(i), "content": ""}
	}
	work := func(dockerfile any) float64 {
		before := r.work()
		r.ok(400, "POST", "/v1/templates", jsonOf(object{"name": "a", "files": files, "dockerfile": dockerfile}))
		return r.work() - before
	}
	decoded := work(1) // refused before the files are made
	if made := work("NOPE"); made <= decoded {
		t.Errorf("%.6f s of work, and %.6f s without the files", made, decoded)
	}
}
