package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/internal/template"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// What the builds in progress may take together, half of it for one key: files on disk, and memory. So a key has at
// most eight.
const (
	maxBuilds       = 1 << 30
	buildSize int64 = 64 << 20 // of one, besides its files
	fileSize        = 4 << 10  // of a file, besides its text
)

// buildTemplate is POST /v1/templates. A client that disconnects cancels its build.
func (a *apiV1) buildTemplate(w *httpd.Response, r *http.Request) error {
	if a.stores.Templates == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "templates", Msg: "this server builds none",
			Fix: "start it with --templates SIZE"}
	}
	var req api.TemplateRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	build, err := buildOf(&req)
	if err != nil {
		return err
	}
	build.Owner, build.Charge = w.Key, w.Charge
	w.Rules(&build.Network)
	files, err := filesOf(req.Files)
	if err != nil {
		return err
	}
	size := buildSize
	for _, f := range files {
		size += fileSize + int64(len(f.Data))
	}
	if !a.builds.Take(w.Key, size) {
		return &sandbox.Error{Kind: sandbox.Busy, Op: "templates",
			Msg: "too many builds are in progress, or with too many files", Fix: "try again when one has ended"}
	}
	defer a.builds.Give(w.Key, size)
	dir, done, err := a.contextOf(w, files)
	defer done()
	if err != nil {
		return err
	}
	build.Context = dir
	release()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	var stream *runStream
	if wantsEvents(r) {
		stream = newStream(w, sandbox.NewID(), func(err error) {
			a.LostClient()
			cancel(err)
		})
		defer stream.close()
	}
	made, err := a.build(ctx, build, stream)
	if err == nil && stream == nil {
		return a.WriteJSON(w, answer.JSONOf(made))
	}
	if err == nil {
		done := api.TemplateDone{TimeMS: stream.now(), Template: made}
		_ = stream.do(false, func() { stream.add(api.EventDone, done) })
		return nil
	}
	if stream != nil && stream.problem(a.Problem(w, err)) {
		return nil
	}
	return err
}

// contextOf writes the files of a request to a folder, which exists until done. Without files, it is "".
func (a *apiV1) contextOf(w *httpd.Response, files []sandbox.File) (dir string, done func(), err error) {
	if len(files) == 0 {
		return "", func() {}, nil
	}
	draft, err := a.stores.Templates.Images.Scratch()
	if err != nil {
		return "", func() {}, err
	}
	done = func() {
		charge := chargeTime(w)
		_ = draft.Discard() // the next start removes what is left
		charge()
	}
	return draft.Files(), done, writeContext(draft.Files(), files, chargeTime(w))
}

// chargeTime returns a function that counts the time since its last call as work. Files are measured, not estimated:
// ext4 takes up to a hundred times as long to make one if many were removed in the last minute.
func chargeTime(w *httpd.Response) (charge func()) {
	last := time.Now()
	return func() {
		w.Charge(time.Since(last))
		last = time.Now() // after a wait
	}
}

// build carries out a build, and passes its log to a stream, if there is one.
func (a *apiV1) build(ctx context.Context, build template.Build, stream *runStream) (api.Template, error) {
	made := api.Template{}
	build.Report = func(e template.Event) {
		made.Steps = e.Steps
		switch {
		case e.Done && e.Cached:
			made.CachedSteps++
		case stream == nil:
		case e.Text != "":
			stream.progress(fmt.Sprintf("[%d/%d] %s", e.Step, e.Steps, e.Text))
		case e.Output != nil:
			stream.output(e.Stream, e.Output)
		}
	}
	i, err := a.stores.Templates.Build(ctx, build)
	var failed *template.Failed
	if errors.As(err, &failed) {
		err = &sandbox.Error{Kind: sandbox.Invalid, Op: "templates", Msg: failed.Error(),
			Fix: wording.HTTP.Hint(failed.Result.Hints)}
	}
	made.Name, made.Digest, made.Bytes = i.Name, i.Digest, i.Bytes
	return made, err
}

// buildOf converts a request.
func buildOf(r *api.TemplateRequest) (b template.Build, err error) {
	b = template.Build{Name: r.Name, Args: r.Args, Start: r.Start, Ready: r.Ready, Backend: r.Backend,
		AllowUnenforced: r.AllowUnenforced, NoCache: r.NoCache}
	if (r.Dockerfile == nil) == (len(r.Steps) == 0) || r.Dockerfile != nil && *r.Dockerfile == "" {
		return b, sandbox.Invalidf("templates", "give either dockerfile or steps")
	}
	if r.Dockerfile != nil {
		b.Dockerfile = []byte(*r.Dockerfile)
	}
	for _, s := range r.Steps {
		b.Steps = append(b.Steps, template.Step(s))
	}
	if b.Network, err = networkOf(&r.Network); err == nil {
		b.Limits, err = answer.LimitsOf(&r.Limits)
	}
	return b, err
}

// writeContext writes the files of a request to a folder. It calls wrote for each.
func writeContext(dir string, files []sandbox.File, wrote func()) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, f := range files {
		if err := plan.CheckPath(fmt.Sprintf("files[%d].path", i), f.Path); err != nil {
			return err
		}
		if err := writeOne(root, f); err != nil {
			return sandbox.Invalidf(fmt.Sprintf("files[%d].path", i), "%.200q conflicts with another file", f.Path)
		}
		wrote()
	}
	return nil
}

func writeOne(root *os.Root, f sandbox.File) error {
	if dir := path.Dir(f.Path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := os.FileMode(f.Mode)
	if mode == 0 {
		mode = 0o644
	}
	return root.WriteFile(f.Path, f.Data, mode)
}
