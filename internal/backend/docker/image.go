package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// stallTimeout bounds how long an image that is being fetched may stand still.
const stallTimeout = 2 * time.Minute

// errStalled is why an image is not waited for any longer. The deadline of whoever wants it is another thing.
var errStalled = errors.New("it stands still")

// image is what a sandbox's root is made of.
func (b *Backend) image(spec *sandbox.Spec) string {
	if spec.Root.Image != "" {
		return spec.Root.Image
	}
	return b.options.Image
}

// Root is what a sandbox of this spec has as its root.
func (b *Backend) Root(spec sandbox.Spec) sandbox.Root { return sandbox.Root{Image: b.image(&spec)} }

// noImage says whether the engine refused for want of an image.
func noImage(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no such image") || strings.Contains(text, "image not known") || strings.Contains(text, "unable to find image")
}

// pull fetches an image and tells of it. Private ones are for the engine's own program, which knows how to ask for a password.
func (to *connection) pull(ctx context.Context, image string) error {
	if !to.engine.options.Fetch {
		return to.notHere(image)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	to.tell("%s is not here yet: fetching it", image)
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
		to.tellProgress(said, m)
	}
	return nil
}

// notHere is the refusal of an image that is not there and that we may not fetch. One that the caller named is for the caller to fix.
func (to *connection) notHere(image string) error {
	name, kind := to.engine.options.Name, sandbox.Unsupported
	if image == to.engine.options.Image {
		kind = sandbox.Unavailable
	}
	return &sandbox.Error{Kind: kind, Op: name + ": use image", Msg: "the image " + image + " is not here",
		Fix: fmt.Sprintf("fetch it: %s pull %s; or name one that is here (%s images)", name, image, name)}
}

// mustHave says no where the engine does not have an image. Another failure to look is for those who use it.
func (to *connection) mustHave(ctx context.Context, image string) error {
	if errdefs.IsNotFound(to.inspect(ctx, image)) {
		return to.notHere(image)
	}
	return nil
}

func (to *connection) inspect(ctx context.Context, image string) error {
	return to.ask(ctx, "look at image", pingTimeout, func(ctx context.Context) error {
		_, err := to.api.ImageInspect(ctx, image)
		return err
	})
}

// tellProgress tells each change of state once; the bytes in between would be thousands of lines.
func (to *connection) tellProgress(said map[string]string, m jsonstream.Message) {
	if m.Status == "" || said[m.ID] == m.Status {
		return
	}
	said[m.ID] = m.Status
	size := ""
	if m.Progress != nil && m.Progress.Total > 0 {
		size = " " + sandbox.FormatBytes(m.Progress.Total)
	}
	to.tell("%s", strings.TrimPrefix(m.ID+": ", ": ")+m.Status+size)
}

func (to *connection) tell(format string, args ...any) {
	if w := to.engine.options.Progress; w != nil {
		fmt.Fprintf(w, to.engine.options.Name+": "+format+"\n", args...)
	}
}

// unreachable are words of those who could not reach a registry.
var unreachable = []string{"no such host", "connection refused", "i/o timeout", "network is unreachable", "tls handshake timeout", "dial tcp",
	"server misbehaving", "request canceled while waiting", "temporary failure in name resolution", "no route to host", "eof"}

// notFetched says why an image could not be had.
func (to *connection) notFetched(image string, cause, err error) error {
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: to.engine.options.Name + ": fetch image", Err: err}
	text := strings.ToLower(err.Error())
	program := to.engine.options.Name
	switch {
	case errors.Is(cause, errStalled):
		e.Msg = fmt.Sprintf("the image %s did not come on for %v", image, stallTimeout)
		e.Fix = fmt.Sprintf("fetch it beforehand, %s pull %s, or name one that is here (%s images): glovebox run --image NAME", program, image, program)
	case cause != nil:
		return cause
	case containsAny(text, unreachable):
		e.Msg = "the image " + image + " is not here, and its registry cannot be reached"
		e.Fix = fmt.Sprintf("fetch it where there is a network, %s pull %s, or name one that is here (%s images): glovebox run --image NAME", program, image, program)
	default:
		e.Kind = sandbox.Invalid
		e.Msg = "the image " + image + " is not here, and its registry does not hand it out"
		e.Fix = fmt.Sprintf("look at the name; a private image needs %s login and %s pull %s; to use another: glovebox run --image NAME", program, program, image)
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

// wrongProcessor says that an image is for another processor, or nil where that is not the reason why nothing could be executed.
func (to *connection) wrongProcessor(ctx context.Context, image string, err error) error {
	text := err.Error()
	if !strings.Contains(text, "exec format error") && !strings.Contains(text, "image platform") && !strings.Contains(text, "does not match the") {
		return nil
	}
	return to.otherProcessor(ctx, image)
}

// suitable says no to an image of another processor: the guest would run there, and no program of the image. Each image is looked at once.
func (to *connection) suitable(ctx context.Context, digest, image string) error {
	e := to.engine
	e.mu.Lock()
	known := e.suits[digest]
	e.mu.Unlock()
	if known {
		return nil
	}
	// By its digest: the name may be another image's by now. One that the engine does not describe is looked at again the next time.
	found, err := to.describe(ctx, digest)
	if err != nil {
		return nil
	}
	if err := to.mismatch(found, image); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.suits) >= mostSuits {
		clear(e.suits)
	}
	e.suits[digest] = true
	return nil
}

// mostSuits bounds how many images are remembered.
const mostSuits = 1000

func (to *connection) describe(ctx context.Context, image string) (client.ImageInspectResult, error) {
	brief, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return to.api.ImageInspect(brief, image)
}

// otherProcessor is an error where an image is for another processor or system than the engine has.
func (to *connection) otherProcessor(ctx context.Context, image string) error {
	found, err := to.describe(ctx, image)
	if err != nil { // what failed before says more
		return nil
	}
	return to.mismatch(found, image)
}

func (to *connection) mismatch(found client.ImageInspectResult, image string) error {
	if goArch(found.Architecture) == to.arch && (found.Os == "" || found.Os == "linux") {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": use image",
		Msg: fmt.Sprintf("the image %s is for %s/%s, and the engine runs on linux/%s", image, found.Os, found.Architecture, to.arch),
		Fix: fmt.Sprintf("fetch it for this processor: %s pull --platform linux/%s %s", to.engine.options.Name, to.arch, image)}
}
