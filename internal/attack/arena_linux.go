package attack

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// settleTime is how long everything that an attack used may take to disappear: killed processes need some processor
// time to end, and the processors may be busy. More than usualSettleTime is reported.
const (
	settleTime      = 2 * time.Minute
	usualSettleTime = 5 * time.Second
)

// Arena is a backend and an engine under attack, and the state of the host that must not change.
type Arena struct {
	options  Options
	spy      *spy
	engine   *engine.Engine
	log      *lockedBuffer
	canaries *Canaries
	host     *hostWatch
	outside  *outside
	volumes  volumes
	kernel   sandbox.Kernel
	weaker   []string // limits that this host cannot enforce and the attacks waive
	alone    bool     // Options.Alone

	hits  atomic.Int64 // of the canaries, before the current trial
	ports atomic.Int32
}

// Settings of the arena's engine.
const (
	attackSlots   = 96 // attacks with their neighbours and benign runs
	firstTestPort = 20_000
	manyTestPorts = 12_000 // below Linux's ephemeral ports, which other servers may use
)

// Open makes the arena. It runs a sandbox and an ordinary run in each language, so that one-time work is done.
func Open(ctx context.Context, o Options) (_ *Arena, err error) {
	n := &Arena{options: o, canaries: o.Canaries, alone: o.Alone, log: &lockedBuffer{}, host: watchHost(),
		spy: &spy{Backend: o.Backend, image: o.Image, folders: o.Folders, seen: map[string][]*sighting{},
			labelled: o.Warm > 0}}
	n.hits.Store(n.canaries.Hits())
	n.ports.Store(rand.Int32N(manyTestPorts / 2))
	languages := o.Languages
	if len(languages) == 0 {
		languages = Languages
	}
	if n.outside, err = newOutside(n.canaries.Secret); err != nil {
		return nil, err
	}
	if n.volumes, err = newVolumes(); err != nil {
		return nil, errors.Join(err, n.outside.close())
	}
	n.engine, err = engine.New(engine.Config{Volumes: engine.VolumeConfig{Store: n.volumes},
		Backends: []sandbox.Backend{n.spy}, Languages: languages, Slots: attackSlots, Gate: n.outside,
		Ceiling: &sandbox.DefaultNetworkCeiling,
		Warm:    o.Warm, Log: n.log.logger()})
	if err != nil {
		return nil, errors.Join(err, n.outside.close(), n.volumes.close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.accept(ctx); err != nil {
		return nil, err
	}
	for _, l := range languages {
		if err := n.ordinary(ctx, l.Name); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(settleTime); o.Warm > 0 && n.engine.Stats().Forked == 0; {
		if err := n.Benign(ctx); err != nil || time.Now().After(end) {
			return nil, errors.Join(err, errors.New("no interpreter is ready to be forked"))
		}
	}
	_, left := n.spy.leftOf(ordinaryTrial)
	return n, errors.Join(left...)
}

// Close ends everything running, and waits for it.
func (n *Arena) Close() error {
	return errors.Join(n.engine.Close(), n.outside.close(), n.volumes.close())
}

// Forked is how many attack programs began in a fork since the arena was opened. Ordinary runs do not count.
func (n *Arena) Forked() int64 { return n.spy.forked.Load() }

// Unenforced names the limits that this host cannot enforce and the attacks waive.
func (n *Arena) Unenforced() []string { return n.weaker }

// accept reports an error unless a sandbox can be created here. An ordinary user without control groups cannot limit
// memory: then the arena waives that limit, and attacks on it are not applicable.
func (n *Arena) accept(ctx context.Context) error {
	asked := completeSpec()
	asked.Metadata = map[string]string{labelTrial: ordinaryTrial}
	box, err := n.spy.Create(ctx, asked)
	if err != nil && sandbox.KindOf(err) == sandbox.Unsupported {
		n.weaker = []string{string(sandbox.LimitMemory)}
		asked.ID, asked.AllowUnenforced = sandbox.NewID(), n.weaker
		box, err = n.spy.Create(ctx, asked)
	}
	if err != nil {
		return err
	}
	n.kernel = box.Effective().Kernel
	return box.Close()
}

// port returns a port that no other trial uses.
func (n *Arena) port() int { return firstTestPort + int(n.ports.Add(1))%manyTestPorts }

// Benign makes an ordinary run, which must succeed before, beside and after any attack.
func (n *Arena) Benign(ctx context.Context) error { return n.ordinary(ctx, "python") }

func (n *Arena) ordinary(ctx context.Context, lang string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	code := map[string]string{"python": "print(1+1)", "javascript": "console.log(1+1)", "bash": "echo $((1+1))"}[lang]
	r, err := n.engine.Run(ctx, engine.OneShot{Spec: sandbox.Spec{AllowUnenforced: n.weaker,
		Metadata: map[string]string{labelTrial: ordinaryTrial}},
		Request: sandbox.Request{Language: lang, Code: []byte(code), Timeout: probeTime}})
	if err != nil {
		return fmt.Errorf("an ordinary run in %s: %w", lang, err)
	}
	if r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "2\n" {
		return fmt.Errorf("an ordinary run in %s: %s, %q, %q, %+v", lang, r.Status, r.Stdout.Head, r.Stderr.Head,
			r.Hints)
	}
	return nil
}

// laterDeadline is the factor of an attack's deadline when Try repeats the attack.
const laterDeadline = 10

// Try makes one attack and all checks after it. If the attack's own deadline passed before its probe began, the trial
// shows nothing, and Try repeats it with a later deadline.
func (n *Arena) Try(ctx context.Context, a *Attack) Verdict {
	began := time.Now()
	v, hurried := n.try(ctx, a, a.timeout)
	if hurried && v.Outcome == Unclear {
		before := v
		v, _ = n.try(ctx, a, laterDeadline*a.timeout)
		v.Notes, v.Meanwhile = append(before.Notes, v.Notes...), append(before.Meanwhile, v.Meanwhile...)
	}
	v.Took = time.Since(began)
	return v
}

func (n *Arena) try(ctx context.Context, a *Attack, deadline time.Duration) (v Verdict, hurried bool) {
	tr := &trial{record: record{ctx: ctx}, attack: a, arena: n, nonce: strings.ToLower(crand.Text()), port: n.port(),
		deadline: deadline}
	tr.part(tr.run)
	tr.part(tr.checkReleased)
	tr.part(tr.checkLeftovers)
	tr.part(tr.checkAftermath)
	if err := ctx.Err(); err != nil {
		tr.doubt("it was interrupted: %v", context.Cause(ctx))
	}
	return tr.close(), tr.hurried && len(tr.unclear) == 1 // unclear for another reason
}

// checkAftermath checks the planted places, the host, and the next run.
func (tr *trial) checkAftermath() {
	n := tr.arena
	if what := n.canaries.intact(); what != "" {
		tr.fail("a planted place was changed: %s", what)
	}
	hits := n.canaries.Hits()
	if before := n.hits.Swap(hits); hits != before {
		n.canaries.mu.Lock()
		tr.fail("a planted listener was reached %d times: %s", hits-before, n.canaries.last)
		n.canaries.mu.Unlock()
	}
	changes := n.host.changed(n.canaries.marker)
	for _, what := range changes[byAttack] {
		tr.fail("the host was changed: %s", what)
	}
	for _, what := range changes[unexplained] {
		tr.doubt("the host was changed meanwhile by an unknown cause: %s", what)
	}
	for _, what := range changes[byOthers] {
		tr.remark("the host was changed, but not by the attack: %s", what)
	}
	if what := n.spy.complaints(); what != "" {
		tr.fail("%s", what)
	}
	if err := n.Benign(tr.ctx); err != nil {
		tr.fail("after it: %v", err)
	}
}

// lockedBuffer receives the engine's log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }
