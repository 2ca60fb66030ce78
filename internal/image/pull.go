package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// stallTimeout is the longest wait for the next bytes of a registry.
const stallTimeout = time.Minute

// Pull fetches an image from its registry, with the credentials of Docker's configuration. A registry on loopback may
// speak plain HTTP. report receives lines of progress.
func (s *Store) Pull(ctx context.Context, text string, report func(string)) (Image, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return Image{}, sandbox.Invalidf("image", "%.200q is not the name of an image", text)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no bytes for %v", stallTimeout)) })
	defer stall.Stop()
	client := remote.DefaultTransport.(*http.Transport).Clone()
	client.ResponseHeaderTimeout = stallTimeout
	defer client.CloseIdleConnections()
	image, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(client),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return Image{}, pullError(ctx, text, err)
	}
	i, err := s.add(ctx, source{name: nameOf(ref), image: image, report: report,
		moved: func() { stall.Reset(stallTimeout) }})
	if err != nil {
		return Image{}, pullError(ctx, text, err)
	}
	return i, nil
}

func pullError(ctx context.Context, text string, err error) error {
	var answer *transport.Error
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden):
		return &sandbox.Error{Kind: sandbox.Unauthorized, Op: "pull " + text, Err: err,
			Fix: "check the name, or log in to the registry with docker login or podman login"}
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return &sandbox.Error{Kind: sandbox.NotFound, Op: "pull " + text, Msg: "the registry does not have it",
			Fix: "check the name and the tag"}
	case ctx.Err() != nil:
		return fmt.Errorf("pull %s: %w", text, context.Cause(ctx))
	}
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "pull " + text, Err: err,
		Fix: "check the name and that the registry is reachable"}
}
