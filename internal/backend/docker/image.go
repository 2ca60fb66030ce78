package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stallTimeout is the longest pause in an image's download.
const stallTimeout = 2 * time.Minute

// errStalled ends a download that makes no progress. A caller's deadline is a different error.
var errStalled = errors.New("no progress")

// image returns the image of a sandbox's root.
func (b *Backend) image(spec *sandbox.Spec) string {
	if spec.Root.Image != "" {
		return spec.Root.Image
	}
	return b.options.Image
}

// Root returns the root of a sandbox of this spec.
func (b *Backend) Root(spec sandbox.Spec) sandbox.Root { return sandbox.Root{Image: b.image(&spec)} }

// ImageOf returns the image that a name leads to, in the store or the engine. The users of an image of the engine have
// names only inside it.
func (b *Backend) ImageOf(ctx context.Context, name string, fetch sandbox.Fetch) (sandbox.Image, error) {
	to, err := b.engine.connect(ctx, callTimeout)
	if err != nil {
		return sandbox.Image{}, nil // Create reports it
	}
	if l, ok, err := to.stored(ctx, name); err != nil || ok {
		return l.Image, err
	}
	found, err := to.describe(ctx, name)
	if fetch != nil && b.options.Fetch && (errdefs.IsNotFound(err) || err == nil && b.isStale(name)) {
		if err := fetch(ctx, func(ctx context.Context) error { return to.pull(ctx, name) }); err != nil {
			return sandbox.Image{}, err
		}
		b.fresh.Store(name, true)
		found, err = to.describe(ctx, name)
	}
	if err != nil || found.Config == nil {
		return sandbox.Image{Digest: found.ID}, nil // Create reports it
	}
	c := found.Config
	image := sandbox.Image{Digest: found.ID, Env: c.Env, WorkDir: path.Clean("/" + c.WorkingDir),
		Entrypoint: c.Entrypoint, Cmd: c.Cmd}
	if image.Start, err = hostbox.StartOf(c.Labels); err != nil {
		return image, err
	}
	user, _, _ := strings.Cut(c.User, ":")
	id, err := strconv.ParseUint(user, 10, 32)
	switch {
	case user == "" || user == "root" || err == nil && id == 0:
	case err != nil:
		image.Note = fmt.Sprintf("the image names the user %.40q; the code runs as %v", user, sandbox.DefaultUser)
	default:
		image.User = sandbox.User{UID: uint32(id), GID: uint32(id)}
	}
	if image.WorkDir == "/" {
		image.WorkDir = ""
	}
	return image, nil
}

// isStale reports whether an image must be fetched again.
func (b *Backend) isStale(name string) bool {
	_, fetched := b.fresh.Load(name)
	return b.options.Refresh && !fetched
}

// SaveImage writes an image of the engine as an archive of docker save.
func (b *Backend) SaveImage(ctx context.Context, name string, to io.Writer) error {
	engine, err := b.engine.connect(ctx, callTimeout)
	if err != nil {
		return err
	}
	saved, err := engine.api.ImageSave(ctx, []string{name})
	if errdefs.IsNotFound(err) || err != nil && noImage(err) {
		return engine.missingImage(name)
	}
	if err != nil {
		return fmt.Errorf("%s: save image: %w", b.Name(), err)
	}
	defer saved.Close()
	_, err = io.Copy(to, saved)
	return err
}

// noImage reports whether the engine failed because an image is missing.
func noImage(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no such image") || strings.Contains(text, "image not known") ||
		strings.Contains(text, "unable to find image")
}

// pull fetches an image and reports progress. It has no credentials for private images.
func (to *connection) pull(ctx context.Context, image string) error {
	if !to.engine.options.Fetch {
		return to.missingImage(image)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	to.report("%s is missing: fetching it", image)
	answer, err := to.api.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return to.notFetched(image, context.Cause(ctx), err)
	}
	defer answer.Close()
	said := map[string]string{}
	for m, err := range answer.JSONMessages(ctx) {
		stalled.Reset(stallTimeout)
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return to.notFetched(image, context.Cause(ctx), err)
		}
		to.reportProgress(said, m)
	}
	return nil
}

// missingImage returns the error for a missing image that may not be fetched. The caller must fix an image that it
// named.
func (to *connection) missingImage(image string) error {
	name, kind := to.engine.options.Name, sandbox.Unsupported
	if image == to.engine.options.Image {
		kind = sandbox.Unavailable
	}
	return &sandbox.Error{Kind: kind, Op: name + ": use image", Msg: "the engine does not have the image " + image,
		Fix:   fmt.Sprintf("%s pull %s; %s images lists those that are there", name, image, name),
		Fixes: []sandbox.Hint{sandbox.ChooseImage("NAME")}}
}

// mustHave returns an error if neither the engine nor the store has an image. Later calls report other errors.
func (to *connection) mustHave(ctx context.Context, image string) error {
	if !errdefs.IsNotFound(to.inspect(ctx, image)) {
		return nil
	}
	if _, ok, err := to.stored(ctx, image); ok || err != nil {
		return err
	}
	return to.missingImage(image)
}

func (to *connection) inspect(ctx context.Context, image string) error {
	return to.ask(ctx, "look at image", pingTimeout, func(ctx context.Context) error {
		_, err := to.api.ImageInspect(ctx, image)
		return err
	})
}

// reportProgress reports each change of state once; byte counts would be thousands of lines.
func (to *connection) reportProgress(said map[string]string, m jsonstream.Message) {
	if m.Status == "" || said[m.ID] == m.Status {
		return
	}
	said[m.ID] = m.Status
	size := ""
	if m.Progress != nil && m.Progress.Total > 0 {
		size = " " + sandbox.FormatBytes(m.Progress.Total)
	}
	to.report("%s", strings.TrimPrefix(m.ID+": ", ": ")+m.Status+size)
}

func (to *connection) report(format string, args ...any) {
	if w := to.engine.options.Progress; w != nil {
		fmt.Fprintf(w, to.engine.options.Name+": "+format+"\n", args...)
	}
}

// unreachable lists errors of an unreachable registry.
var unreachable = []string{"no such host", "connection refused", "i/o timeout", "network is unreachable",
	"tls handshake timeout", "dial tcp",
	"server misbehaving", "request canceled while waiting", "temporary failure in name resolution", "no route to host",
	"eof"}

// notFetched explains why an image could not be fetched.
func (to *connection) notFetched(image string, cause, err error) error {
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: to.engine.options.Name + ": fetch image",
		Fixes: []sandbox.Hint{sandbox.ChooseImage("NAME")}, Err: err}
	text := strings.ToLower(err.Error())
	program := to.engine.options.Name
	switch {
	case errors.Is(cause, errStalled):
		e.Msg = fmt.Sprintf("the download of the image %s made no progress for %v", image, stallTimeout)
		e.Fix = fmt.Sprintf("%s pull %s; %s images lists those that are there", program, image, program)
	case cause != nil:
		return cause
	case containsAny(text, unreachable):
		e.Msg = "the image " + image + " is not here, and its registry is unreachable"
		e.Fix = fmt.Sprintf("with a network: %s pull %s; %s images lists those that are there", program, image, program)
	default:
		e.Kind = sandbox.Invalid
		e.Msg = "the image " + image + " is not here, and its registry refuses it"
		e.Fix = fmt.Sprintf("check the name; for a private image: %s login && %s pull %s", program, program, image)
	}
	return e
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// wrongProcessor returns an error if the failure was that the image is for another processor, else nil.
func (to *connection) wrongProcessor(ctx context.Context, image string, err error) error {
	text := err.Error()
	if !strings.Contains(text, "exec format error") && !strings.Contains(text, "image platform") &&
		!strings.Contains(text, "does not match the") {
		return nil
	}
	return to.otherProcessor(ctx, image)
}

// suitable returns an error for an image for another processor: the guest would run, but no program of the image. It
// checks each image once.
func (to *connection) suitable(ctx context.Context, digest, image string) error {
	e := to.engine
	e.mu.Lock()
	known := e.suits[digest]
	e.mu.Unlock()
	if known {
		return nil
	}
	// Look it up by digest: the name may have moved. The next call repeats a failed lookup.
	found, err := to.describe(ctx, digest)
	if err != nil {
		return nil
	}
	if err := to.mismatch(found, image); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.suits) >= maxSuits {
		clear(e.suits)
	}
	e.suits[digest] = true
	return nil
}

// maxSuits bounds how many images are remembered.
const maxSuits = 1000

func (to *connection) describe(ctx context.Context, image string) (client.ImageInspectResult, error) {
	brief, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return to.api.ImageInspect(brief, image)
}

// otherProcessor returns an error if an image is for another processor or system than the engine's.
func (to *connection) otherProcessor(ctx context.Context, image string) error {
	found, err := to.describe(ctx, image)
	if err != nil { // the earlier failure is more useful
		return nil
	}
	return to.mismatch(found, image)
}

func (to *connection) mismatch(found client.ImageInspectResult, image string) error {
	if goArch(found.Architecture) == to.arch && (found.Os == "" || found.Os == "linux") {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": use image",
		Msg: fmt.Sprintf("the image %s is for %s/%s, but the engine runs on linux/%s", image, found.Os,
			found.Architecture,
			to.arch),
		Fix: fmt.Sprintf("%s pull --platform linux/%s %s", to.engine.options.Name, to.arch, image)}
}
