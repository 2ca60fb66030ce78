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
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// Bounds of what an engine may take to answer. One that hangs gives an error within them.
const (
	pingTimeout  = time.Second      // of the first word of an engine, for who asks only whether one is there: none there is known in under 2 s
	factsTimeout = 5 * time.Second  // of what it says of itself, which a busy Podman takes two seconds for
	callTimeout  = 30 * time.Second // of a call, and of an engine that is to make or give back a sandbox: that it is slow is no reason to have none
	startTimeout = time.Minute      // of calls that wait for a runtime, or for processes to die
	backTimeout  = 30 * time.Second // for one that was there to come back
	firstBackOff = 50 * time.Millisecond
	lastBackOff  = time.Second
)

// engine is the way to an engine. What is known of it is asked for once, and again after it could not be reached: another one may answer
// then, or the same with other settings.
type engine struct {
	options *Options
	meeting chan struct{} // of one place, taken while an engine is met

	mu     sync.Mutex // guards all below
	to     *connection
	met    bool              // whether an engine has ever answered
	filled map[string]string // the volume that holds a guest, by processor
	suits  map[string]bool   // images that are for the engine's processor, by digest

	most time.Duration // bound on every call, for tests; 0 is none
}

// connection is an engine that answered, and what it says of itself.
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

// connect returns the engine, met if it is not yet. first bounds its first word: who asks only whether one is there waits not for long, who
// needs it bears with one that is busy.
func (e *engine) connect(ctx context.Context, first time.Duration) (*connection, error) {
	if to, _ := e.known(); to != nil {
		return to, nil
	}
	turn := time.NewTimer(first + factsTimeout) // somebody else may bear with it for longer
	defer turn.Stop()
	select {
	case e.meeting <- struct{}{}:
		defer func() { <-e.meeting }()
	case <-turn.C:
		at, err := find(e.options)
		if err != nil {
			return nil, err
		}
		return nil, e.absent(at, hangs(first+factsTimeout))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	known, met := e.known()
	if known != nil { // somebody else has met it meanwhile
		return known, nil
	}
	at, err := find(e.options)
	if err != nil {
		return nil, err
	}
	to, err := e.meet(ctx, at, first)
	for pause, end := firstBackOff, time.Now().Add(backTimeout); err != nil && met && isGone(err) && time.Now().Before(end); pause = min(2*pause, lastBackOff) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		to, err = e.meet(ctx, at, first)
	}
	if err != nil && ctx.Err() != nil { // the caller's time is up, which says nothing of the engine
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, e.absent(at, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to, e.met = to, true
	return to, nil
}

// known is the connection, nil where there is none now, and whether there ever was one.
func (e *engine) known() (*connection, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.to, e.met
}

func (e *engine) meet(ctx context.Context, at *endpoint, first time.Duration) (*connection, error) {
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

// newClient makes a client that talks to nobody yet.
func newClient(at *endpoint) (*client.Client, error) {
	var options []client.Opt
	if at.certs != "" {
		config, err := tlsconfig.Client(tlsconfig.Options{CAFile: filepath.Join(at.certs, "ca.pem"), CertFile: filepath.Join(at.certs, "cert.pem"),
			KeyFile: filepath.Join(at.certs, "key.pem"), InsecureSkipVerify: !at.verify, MinVersion: tls.VersionTLS12})
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: config}, CheckRedirect: client.CheckRedirect}))
	}
	return client.New(append(options, client.WithHost(at.host))...)
}

// greet asks an engine for what it is.
func (to *connection) greet(ctx context.Context, first time.Duration) error {
	brief, cancel := context.WithTimeoutCause(ctx, first, hangs(first))
	defer cancel()
	if _, err := to.api.Ping(brief, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return told(brief, err)
	}
	facts := max(first, factsTimeout)
	longer, cancel := context.WithTimeoutCause(ctx, facts, hangs(facts))
	defer cancel()
	return told(longer, to.learn(longer))
}

// hangs is why an engine was given up that had taken a call.
type hangs time.Duration

func (h hangs) Error() string { return fmt.Sprintf("it did not answer within %v", time.Duration(h)) }

// told is the error of a call, or that the engine hangs where that is why it failed.
func told(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && errors.As(why, new(hangs)) {
		return why
	}
	return err
}

// learn asks an engine that is there for what it is.
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
	if to.rootless && to.info.CgroupVersion == "1" { // Podman tells of the controllers that the host has; no ordinary user may use those
		to.info.MemoryLimit, to.info.SwapLimit, to.info.PidsLimit, to.info.CPUCfsQuota = false, false, false, false
	}
	to.lose(to.engine.options.Lack)
	to.local = to.isLocal()
	to.sockets = to.local && !to.remapped && to.hasOurFolders() && !to.engine.options.Bridge
	return nil
}

// lose has the engine say that it has no such controllers.
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

// mostInfo bounds what an engine says of itself, in bytes.
const mostInfo = 1 << 20

// podmanRootless asks Podman whether it is an ordinary user's. It says so in a field of its own, which the client does not read.
func (to *connection) podmanRootless(ctx context.Context) (bool, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return to.api.Dialer()(ctx) }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v"+to.api.ClientVersion()+"/info", nil)
	if err != nil {
		return false, err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var info struct{ Rootless bool }
	err = json.NewDecoder(io.LimitReader(answer.Body, mostInfo)).Decode(&info)
	return info.Rootless, err
}

// secured says whether the engine names a security option: "name=userns", "name=seccomp,profile=default".
func (to *connection) secured(name string) bool {
	return slices.ContainsFunc(to.info.SecurityOptions, func(o string) bool {
		first, _, _ := strings.Cut(o, ",")
		return first == "name="+name || first == name
	})
}

// goArch is a processor by Go's name.
func goArch(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// forget has the engine met anew for the next call.
func (to *connection) forget() {
	e := to.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to == to {
		_ = to.api.Close() // of its idle connections alone: boxes that were made by it go on using it
		e.to = nil
		clear(e.filled)
		clear(e.suits)
	}
}

// call makes one call within its bound, and again while the engine cannot be reached. One that was cut off in its middle is not repeated:
// the caller takes back what it may have done.
func (to *connection) call(ctx context.Context, step string, bound time.Duration, f func(context.Context) error) error {
	return to.repeat(ctx, step, bound, isGone, f)
}

// ask makes a call that changes nothing, or nothing the second time: it is also repeated where it was cut off, as by an engine that
// restarts.
func (to *connection) ask(ctx context.Context, step string, bound time.Duration, f func(context.Context) error) error {
	return to.repeat(ctx, step, bound, isCut, f)
}

func (to *connection) repeat(ctx context.Context, step string, bound time.Duration, again func(error) bool, f func(context.Context) error) error {
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
			if isCut(err) {
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
