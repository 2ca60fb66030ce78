package docker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-connections/tlsconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// Timeouts for calls to an engine. An engine that hangs gives an error within them.
const (
	pingTimeout  = time.Second      // of a probe's first call, to report a missing engine in under 2 s
	factsTimeout = 15 * time.Second // of queries about the engine; Podman on a busy host takes more than five seconds
	callTimeout  = 30 * time.Second // of other calls; a slow engine is better than none
	startTimeout = time.Minute      // of calls that wait for a runtime, or for processes to die
	backTimeout  = 30 * time.Second // for an engine that was there to come back
	firstBackOff = 50 * time.Millisecond
	lastBackOff  = time.Second
)

// engine connects to an engine. It queries facts about the engine once, and again after it was unreachable: another
// engine may answer then, or the same with other settings.
type engine struct {
	options    *Options
	connecting chan struct{} // of capacity 1, full while connecting
	loading    chan struct{} // of capacity 1, full while an image is loaded

	mu            sync.Mutex // guards all below
	to            *connection
	everConnected bool                 // whether an engine has ever answered
	filled        map[string]string    // the guest's volume, by processor
	suits         map[string]bool      // whether an image fits the engine's processor, by digest
	used          map[string]time.Time // last use of images of the store, by reference

	most time.Duration // timeout of every call, for tests; 0 is none
}

// connection is an engine that answered, and the facts about it.
type connection struct {
	*endpoint
	engine *engine
	api    *client.Client
	info   system.Info
	podman bool
	arch   string // of its processor, as Go names it

	rootless bool // the engine is an ordinary user's
	remapped bool // containers have a user namespace
	local    bool // its containers run on this kernel, and it sees the files of this host
	sockets  bool // the guest can make a socket in a folder of ours, and we can connect to it
}

// connect returns the connection, and connects if necessary. first is the timeout of the first call: short for a probe,
// long for a caller that needs the engine.
func (e *engine) connect(ctx context.Context, first time.Duration) (*connection, error) {
	if to, _ := e.known(); to != nil {
		return to, nil
	}
	turn := time.NewTimer(first + factsTimeout) // another caller may wait longer for it
	defer turn.Stop()
	select {
	case e.connecting <- struct{}{}:
		defer func() { <-e.connecting }()
	case <-turn.C:
		at, err := find(e.options)
		if err != nil {
			return nil, err
		}
		return nil, e.absent(at, hangs(first+factsTimeout))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	known, everConnected := e.known()
	if known != nil { // another caller has connected meanwhile
		return known, nil
	}
	at, err := find(e.options)
	if err != nil {
		return nil, err
	}
	to, err := e.connectOnce(ctx, at, first)
	for pause, end := firstBackOff, time.Now().Add(backTimeout); err != nil && everConnected && isUnreachable(err) &&
		time.Now().Before(end); pause = min(2*pause, lastBackOff) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		to, err = e.connectOnce(ctx, at, first)
	}
	if err != nil && ctx.Err() != nil { // the caller's deadline passed; the engine may be fine
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, e.absent(at, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to, e.everConnected = to, true
	return to, nil
}

// known returns the current connection, or nil, and whether there ever was one.
func (e *engine) known() (*connection, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.to, e.everConnected
}

func (e *engine) connectOnce(ctx context.Context, at *endpoint, first time.Duration) (*connection, error) {
	api, err := newClient(at)
	if err != nil {
		return nil, err
	}
	to := &connection{endpoint: at, engine: e, api: api}
	if err := to.greet(ctx, first); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return to, nil
}

func newClient(at *endpoint) (*client.Client, error) {
	var options []client.Opt
	if at.certs != "" {
		config, err := tlsconfig.Client(tlsconfig.Options{CAFile: filepath.Join(at.certs, "ca.pem"),
			CertFile: filepath.Join(at.certs, "cert.pem"),
			KeyFile:  filepath.Join(at.certs, "key.pem"), InsecureSkipVerify: !at.verify, MinVersion: tls.VersionTLS12})
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithHTTPClient(&http.Client{
			Transport:     &http.Transport{TLSClientConfig: config},
			CheckRedirect: client.CheckRedirect}))
	}
	return client.New(append(options, client.WithHost(at.host))...)
}

func (to *connection) greet(ctx context.Context, first time.Duration) error {
	brief, cancel := context.WithTimeoutCause(ctx, first, hangs(first))
	defer cancel()
	if _, err := to.api.Ping(brief, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return orHangs(brief, err)
	}
	facts := max(first, factsTimeout)
	longer, cancel := context.WithTimeoutCause(ctx, facts, hangs(facts))
	defer cancel()
	return orHangs(longer, to.learn(longer))
}

// hangs is the error of an engine that accepted a call and never answered.
type hangs time.Duration

func (h hangs) Error() string { return fmt.Sprintf("it did not answer within %v", time.Duration(h)) }

// orHangs returns the error of a call, or hangs if the timeout caused it.
func orHangs(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && errors.As(why, new(hangs)) {
		return why
	}
	return err
}

func (to *connection) learn(ctx context.Context) error {
	version, err := to.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return err
	}
	for _, part := range version.Components {
		to.podman = to.podman || strings.Contains(part.Name, "Podman")
	}
	info, err := to.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	to.info = info.Info
	to.arch = goArch(to.info.Architecture)
	to.rootless, to.remapped = to.secured("rootless"), to.secured("userns")
	if to.podman {
		if to.rootless, err = to.podmanRootless(ctx); err != nil {
			return err
		}
	}
	// Podman reports the host's controllers, which no ordinary user may use
	if to.rootless && to.info.CgroupVersion == "1" {
		to.info.MemoryLimit, to.info.SwapLimit, to.info.PidsLimit, to.info.CPUCfsQuota = false, false, false, false
	}
	to.lose(to.engine.options.Lack)
	to.local = to.isLocal()
	to.sockets = to.local && !to.remapped && to.hasOurFolders() && !to.engine.options.Bridge
	return nil
}

func (to *connection) lose(controllers []string) {
	for _, name := range controllers {
		switch name {
		case "memory":
			to.info.MemoryLimit, to.info.SwapLimit = false, false
		case "cpu":
			to.info.CPUCfsQuota = false
		case "pids":
			to.info.PidsLimit = false
		}
	}
}

// maxInfo bounds an engine's description of itself, in bytes.
const maxInfo = 1 << 20

// podmanRootless asks Podman whether it is rootless. The field is not in Docker's API.
func (to *connection) podmanRootless(ctx context.Context) (bool, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return to.api.Dialer()(ctx)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v"+to.api.ClientVersion()+"/info",
		nil)
	if err != nil {
		return false, err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var info struct{ Rootless bool }
	err = json.NewDecoder(io.LimitReader(answer.Body, maxInfo)).Decode(&info)
	return info.Rootless, err
}

// secured reports whether the engine lists a security option: "name=userns", "name=seccomp,profile=default".
func (to *connection) secured(name string) bool {
	return slices.ContainsFunc(to.info.SecurityOptions, func(o string) bool {
		first, _, _ := strings.Cut(o, ",")
		return first == "name="+name || first == name
	})
}

func goArch(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// forget makes the next call connect again.
func (to *connection) forget() {
	e := to.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to == to {
		_ = to.api.Close() // closes idle connections only: existing boxes go on using it
		e.to = nil
		clear(e.filled)
		clear(e.suits)
	}
}

// call makes one call within its timeout, and retries while the engine is unreachable. It does not repeat an
// interrupted call, whose effects the caller undoes.
func (to *connection) call(ctx context.Context, step string, bound time.Duration, f func(context.Context) error) error {
	return to.repeat(ctx, step, bound, isUnreachable, f)
}

// ask makes an idempotent call. It also repeats an interrupted call, for example if the engine restarts.
func (to *connection) ask(ctx context.Context, step string, bound time.Duration, f func(context.Context) error) error {
	return to.repeat(ctx, step, bound, isInterrupted, f)
}

// ask is connection.ask for a call with a result.
func ask[T any](ctx context.Context, to *connection, step string, bound time.Duration,
	f func(context.Context) (T, error)) (T, error) {
	var result T
	err := to.ask(ctx, step, bound, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}

func (to *connection) container(ctx context.Context, step, name string) (container.InspectResponse, error) {
	found, err := ask(ctx, to, step, callTimeout, func(ctx context.Context) (client.ContainerInspectResult, error) {
		return to.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	})
	return found.Container, err
}

func (to *connection) repeat(ctx context.Context, step string, bound time.Duration, again func(error) bool,
	f func(context.Context) error) error {
	if most := to.engine.most; most > 0 {
		bound = min(bound, most)
	}
	pause, end := firstBackOff, time.Now().Add(backTimeout)
	for {
		brief, cancel := context.WithTimeout(ctx, bound)
		err := f(brief)
		expired := brief.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case expired:
			to.forget()
			return to.hangs(step, bound)
		case !again(err) || time.Now().After(end):
			if isInterrupted(err) {
				to.forget()
			}
			return to.explain(step, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, lastBackOff)
	}
}

func (e *engine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to == nil {
		return nil
	}
	err := e.to.api.Close()
	e.to = nil
	return err
}
