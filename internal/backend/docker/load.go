package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// unpackTimeout bounds how long an engine takes for an image that it has received.
const unpackTimeout = 10 * time.Minute

// stored returns the image of the store that a name leads to: a template, or an image that the engine lacks. It returns
// false if the name is the engine's.
func (to *connection) stored(ctx context.Context, name string) (l hostbox.Loadable, ok bool, err error) {
	store := to.engine.options.Images
	if store == nil {
		return l, false, nil
	}
	l, err = store.Loadable(name)
	if sandbox.KindOf(err) == sandbox.NotFound {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	return l, l.Built || errdefs.IsNotFound(to.inspect(ctx, name)), nil
}

// imageFor returns the name by which the engine has the image of a spec. It loads an image of the store that the engine
// lacks.
func (to *connection) imageFor(ctx context.Context, name, digest string) (string, error) {
	l, ok, err := to.stored(ctx, name)
	if err != nil || !ok {
		return name, err
	}
	if digest != "" && digest != l.Digest {
		return "", &sandbox.Error{Kind: sandbox.Unavailable, Op: "image", Msg: name + " changed meanwhile",
			Fix: "run it again"}
	}
	to.engine.noteUse(l.Reference)
	if err := to.inspect(ctx, l.Reference); !errdefs.IsNotFound(err) {
		return l.Reference, err
	}
	loading := to.engine.loading
	select {
	case loading <- struct{}{}:
		defer func() { <-loading }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	err = to.inspect(ctx, l.Reference)
	if errdefs.IsNotFound(err) {
		err = to.load(ctx, &l)
	}
	return l.Reference, err
}

// load copies an image of the store into the engine, in place of an earlier one with its name that no container uses.
func (to *connection) load(ctx context.Context, l *hostbox.Loadable) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	to.report("loading the image %s", l.Name)
	r, w := io.Pipe()
	var saver sync.WaitGroup
	saver.Go(func() {
		err := l.Save(ctx, w, func() { stalled.Reset(stallTimeout) })
		stalled.Reset(unpackTimeout)
		w.CloseWithError(err)
	})
	defer func() {
		err = errors.Join(err, r.Close()) // which ends the saver
		saver.Wait()
	}()
	answer, err := to.api.ImageLoad(ctx, r)
	if err == nil {
		_, err = io.Copy(io.Discard, answer)
		err = errors.Join(err, answer.Close())
	}
	if err == nil { // the answer's stream may also report a failure
		err = to.inspect(ctx, l.Reference)
	}
	if err != nil {
		return fmt.Errorf("%s: load image %s: %w", to.engine.options.Name, l.Name,
			errors.Join(err, context.Cause(ctx)))
	}
	to.removeEarlier(ctx, l)
	to.makeRoom(ctx, l.Reference)
	return nil
}

// removeEarlier removes the earlier images of a name that no container uses. What fails is left for the next call.
func (to *connection) removeEarlier(ctx context.Context, l *hostbox.Loadable) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := to.api.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("label", hostbox.ImageLabel+"="+l.Name)})
	if err != nil {
		return
	}
	repository, _, _ := strings.Cut(l.Reference, ":")
	for _, i := range found.Items {
		for _, tag := range i.RepoTags {
			if strings.HasPrefix(tag, repository+":") && tag != l.Reference {
				_, _ = to.api.ImageRemove(ctx, tag, client.ImageRemoveOptions{PruneChildren: true})
			}
		}
	}
}

// noteUse notes the time of the last use of a loaded image.
func (e *engine) noteUse(reference string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.used) >= maxUsed {
		clear(e.used)
	}
	e.used[reference] = time.Now()
}

// maxUsed bounds the loaded images whose last use is remembered.
const maxUsed = 10_000

// makeRoom removes loaded images that no container uses, except keep, the least recently used first, until the others
// have at most the bytes that images may take: an API key may build any number of templates. The next call retries
// removals that fail.
func (to *connection) makeRoom(ctx context.Context, keep string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	repository, _, _ := strings.Cut(keep, ":")
	found, err := to.api.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("reference", repository+":*")})
	most := to.engine.options.ImageBytes
	if err != nil || most == 0 {
		return
	}
	type loaded struct {
		tag   string
		used  time.Time
		bytes int64
	}
	var list []loaded
	total := int64(0)
	to.engine.mu.Lock()
	for _, i := range found.Items {
		total += i.Size
		for _, tag := range i.RepoTags {
			if !strings.HasPrefix(tag, repository+":") || tag == keep {
				continue
			}
			used, known := to.engine.used[tag]
			if !known {
				used = time.Unix(i.Created, 0)
			}
			list = append(list, loaded{tag, used, i.Size})
		}
	}
	to.engine.mu.Unlock()
	slices.SortFunc(list, func(a, b loaded) int { return a.used.Compare(b.used) })
	for _, l := range list {
		if total <= most {
			return
		}
		if _, err := to.api.ImageRemove(ctx, l.tag, client.ImageRemoveOptions{PruneChildren: true}); err == nil {
			total -= l.bytes
		}
	}
}
