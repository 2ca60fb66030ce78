package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stallTimeout is the longest wait for the next bytes of a registry.
const stallTimeout = time.Minute

// Pull fetches an image from its registry, with the credentials of Docker's configuration. A registry on loopback, with
// a private address or below .local may speak plain HTTP, but only one on loopback gets credentials over it. report
// receives lines of progress. Of concurrent calls for one name, one fetches the image; the others wait and use it.
func (s *Store) Pull(ctx context.Context, text string, report func(string)) (Image, error) {
	ref, err := name.ParseReference(text)
	if err != nil || sandbox.CheckImage(text) != nil {
		return Image{}, sandbox.Invalidf("image", "%.200q is not the name of an image", text)
	}
	began := time.Now()
	done, waited, err := s.enterPull(ctx, nameOf(ref))
	if err != nil {
		return Image{}, err
	}
	defer done()
	if waited {
		if i, err := s.Find(text); err == nil && i.AddedAt.After(began) {
			return i, nil
		}
	}
	return s.pull(ctx, ref, text, report)
}

// enterPull waits until no other call fetches an image. It reports whether it waited. Call done at the end.
func (s *Store) enterPull(ctx context.Context, full string) (done func(), waited bool, err error) {
	for {
		s.pulling.Lock()
		other := s.pulls[full]
		if other == nil {
			mine := make(chan struct{})
			s.pulls[full] = mine
			s.pulling.Unlock()
			return func() {
				s.pulling.Lock()
				delete(s.pulls, full)
				s.pulling.Unlock()
				close(mine)
			}, waited, nil
		}
		s.pulling.Unlock()
		waited = true
		select {
		case <-other:
		case <-ctx.Done():
			return nil, waited, context.Cause(ctx)
		}
	}
}

func (s *Store) pull(ctx context.Context, ref name.Reference, text string, report func(string)) (Image, error) {
	began := time.Now()
	ctx, moved, end := s.untilStalled(ctx)
	defer end()
	options, guard := s.registryOptions(ctx, ref)
	defer guard.CloseIdleConnections()
	image, err := remote.Image(ref, append(options,
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))...)
	if err == nil {
		err = s.fits(image)
	}
	if err != nil {
		return Image{}, registryError(ctx, "pull "+text, err)
	}
	guard.layers.Store(true)
	i, err := s.add(ctx, source{name: nameOf(ref), image: image, report: report, moved: moved,
		remote: true, began: began})
	if err != nil {
		return Image{}, registryError(ctx, "pull "+text, err)
	}
	return i, nil
}

// untilStalled returns a context that ends when moved was not called for as long as a registry may pause. The caller
// calls end.
func (s *Store) untilStalled(ctx context.Context) (stalling context.Context, moved, end func()) {
	stalling, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(s.stall, func() {
		cancel(&sandbox.Error{Kind: sandbox.Unavailable, Op: "registry", Msg: fmt.Sprintf("no bytes for %v", s.stall)})
	})
	return stalling, func() { stall.Reset(s.stall) }, func() {
		stall.Stop()
		cancel(nil)
	}
}

// fits refuses an image whose description, or whose layers before they are unpacked, are over the limits. The registry
// may lie.
func (s *Store) fits(image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	if len(manifest.Layers) > maxLayers {
		return tooLarge("layers")
	}
	if manifest.Config.Size < 0 || manifest.Config.Size > maxDocument {
		return tooLarge("bytes in its configuration")
	}
	total := int64(0)
	for _, l := range manifest.Layers {
		if l.Size < 0 || l.Size > s.Limits.Bytes-total {
			return tooLarge("bytes")
		}
		total += l.Size
	}
	config, err := image.RawConfigFile() // the image keeps it
	if err != nil {
		return err
	}
	return checkDocument(config)
}

// checkDocument refuses a JSON text that takes much memory when it is decoded: each value of a list, however short,
// becomes a structure of some 200 bytes.
func checkDocument(text []byte) error {
	if len(text) > maxDocument || bytes.Count(text, []byte{','}) > maxValues {
		return tooLarge("bytes or values in its manifest or configuration")
	}
	return nil
}

// Push uploads an image to a registry as one layer, under the name to. It returns the digest that the registry has.
func (s *Store) Push(ctx context.Context, text, to string, report func(string)) (digest string, err error) {
	i, err := s.Find(text)
	if err != nil {
		return "", err
	}
	ref, err := name.NewTag(to)
	if err != nil {
		return "", sandbox.Invalidf("image", "%.200q is not the name of an image with a tag", to)
	}
	ctx, moved, end := s.untilStalled(ctx)
	defer end()
	packed, release, err := s.packed(ctx, i, gzip.BestSpeed, moved)
	if err != nil {
		return "", err
	}
	defer release()
	options, guard := s.registryOptions(ctx, ref)
	defer guard.CloseIdleConnections()
	updates := make(chan v1.Update, 1)
	reported := make(chan struct{})
	go func() { // it ends when Write closes the channel
		defer close(reported)
		shown := time.Now()
		for u := range updates {
			if report != nil && time.Since(shown) > progressEvery {
				shown = time.Now()
				report(fmt.Sprintf("%s: %s of %s", to, sandbox.FormatBytes(u.Complete), sandbox.FormatBytes(u.Total)))
			}
		}
	}()
	err = remote.Write(ref, packed, append(options, remote.WithProgress(updates))...)
	<-reported
	if err != nil {
		return "", registryError(ctx, "push "+to, err)
	}
	sum, err := packed.Digest()
	return sum.String(), err
}

// registryOptions returns how to talk to the registry of a reference. The caller closes the connections of the guard.
func (s *Store) registryOptions(ctx context.Context, ref name.Reference) ([]remote.Option, *transportGuard) {
	client := remote.DefaultTransport.(*http.Transport).Clone()
	client.ResponseHeaderTimeout, client.MaxResponseHeaderBytes = s.stall, maxHead
	dial := client.DialContext
	client.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(redirected{}) == nil {
			return dial(ctx, network, addr)
		}
		refuse := func(_, addr string, _ syscall.RawConn) error { return refuseOwn(addr) }
		d := net.Dialer{Timeout: s.stall, Control: refuse}
		return d.DialContext(ctx, network, addr)
	}
	guard := &transportGuard{Transport: client, registry: ref.Context().RegistryStr(),
		tls: ref.Context().Scheme() == "https"}
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(guard),
		remote.WithAuthFromKeychain(guard)}, guard
}

// transportGuard marks requests to other hosts and ports than the registry's, to which it redirects, and those without
// TLS to its own name, whose address it could change. They may not lead to this machine, unless the registry is named
// so. Where a proxy connects, it decides. Until layers, it bounds all answers: the client decodes each as a whole. It
// sends no credentials without TLS to another machine.
type transportGuard struct {
	*http.Transport
	registry string      // host and port
	tls      bool        // the registry has TLS
	layers   atomic.Bool // answers may be layers
	secret   atomic.Bool // there are credentials for the registry
}

// Resolve implements authn.Keychain with Docker's configuration.
func (g *transportGuard) Resolve(of authn.Resource) (authn.Authenticator, error) {
	found, err := authn.DefaultKeychain.Resolve(of)
	g.secret.Store(found != authn.Anonymous)
	return found, err
}

type redirected struct{} // the key of the mark

func (g *transportGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.secret.Load() && r.URL.Scheme == "http" && !isLocal(r.URL.Hostname()) && hasCredentials(r) {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "registry",
			Msg: r.URL.Host + " speaks plain HTTP, in which others could read the password of the registry",
			Fix: "use TLS there, or log out with docker logout"}
	}
	named := r.URL.Host == g.registry && (r.URL.Scheme == "https" || !g.tls) ||
		r.URL.Hostname() == hostOf(g.registry) && isLocal(hostOf(g.registry))
	if !named {
		if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy == nil {
			r = r.WithContext(context.WithValue(r.Context(), redirected{}, true))
		}
	}
	answer, err := g.Transport.RoundTrip(r)
	if err != nil || g.layers.Load() {
		return answer, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err = errors.Join(err, answer.Body.Close()); err == nil {
		err = checkDocument(text)
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// hasCredentials reports whether a request has some, or a token for them: in a header, or in the form of a token server
// (RFC 6749).
func hasCredentials(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Content-Type") == "application/x-www-form-urlencoded"
}

func hostOf(registry string) string {
	if host, _, err := net.SplitHostPort(registry); err == nil {
		return host
	}
	return registry
}

// isLocal reports whether a host is named as this machine.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// refuseOwn refuses an address of this machine, its link or a metadata service: as it is dialed, so that no name can
// change in between.
func refuseOwn(addr string) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	a := rules.Canonical(to.Addr())
	class, never := rules.Classify(a)
	own := isOwn(netip.AddrPortFrom(a, to.Port())) || isOwn(netip.AddrPortFrom(rules.BehindNAT64(a), to.Port()))
	if !never && !own && !strings.Contains(class, "metadata") {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "image",
		Msg: fmt.Sprintf("the registry redirects to %s, an address of this machine or of a metadata service", a)}
}

// registryError explains why a registry's answer is of no use.
func registryError(ctx context.Context, op string, err error) error {
	var answer *transport.Error
	var known *sandbox.Error
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden):
		return &sandbox.Error{Kind: sandbox.Unauthorized, Op: op, Err: err,
			Fix: "check the name, or log in to the registry with docker login or podman login"}
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return &sandbox.Error{Kind: sandbox.NotFound, Op: op, Msg: "the registry does not have it",
			Fix: "check the name and the tag"}
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	case errors.As(err, &known):
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: op, Err: err,
		Fix: "check the name and that the registry is reachable"}
}
