package packages

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Shared is a second tier of the cache for several machines. The zero value means none. Answers are trusted: they
// determine which packages runs get. Archives need no trust, because the digest of each archive is verified.
type Shared struct {
	Answers  Answers
	Archives Archives
}

// Answers stores small values and locks. Its methods are safe for concurrent use and end with their context.
type Answers interface {
	// Get returns the first bytes of the value of a key, at most that many; nil for an unknown key.
	Get(ctx context.Context, key string, most int) ([]byte, error)

	// Put stores a value that expires after ttl.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration) error

	// Lock takes or extends the lock of a key for a holder. The lock expires after the lease. It returns false if
	// another holder has the lock.
	Lock(ctx context.Context, key, holder string, lease time.Duration) (bool, error)

	// Unlock frees the lock of a key if the holder has it.
	Unlock(ctx context.Context, key, holder string) error
}

// Archives stores large values by their digest. Its methods are safe for concurrent use and end with their context.
type Archives interface {
	// Open reads an archive. Without the archive it returns fs.ErrNotExist.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)

	// Put stores or replaces an archive. It stores nothing if content ends with an error.
	Put(ctx context.Context, digest string, content io.Reader) error
}

// Limits of the second tier: the maximum wait of a run, and the pause after a failure.
const (
	answerTimeout  = 2 * time.Second // one call of Answers
	archiveStall   = 5 * time.Second // no data of an archive moves
	archiveTimeout = 2 * time.Minute // one archive
	driverGrace    = time.Second     // for a driver to notice the end of its transfer
	tierPause      = 30 * time.Second
	tierLease      = 15 * time.Second // maximum wait for the lock of a machine that crashed
	tierPoll       = 500 * time.Millisecond

	maxAnswerText = 4 << 20 // bytes
)

// tier is a second tier with its state. A failure is logged, and disables the tier for a pause.
type tier struct {
	Shared
	log *slog.Logger

	mu    sync.Mutex
	until time.Time // the end of the pause
}

// newTier returns nil if there is no second tier.
func newTier(s Shared, log *slog.Logger) *tier {
	if s.Answers == nil || s.Archives == nil {
		return nil
	}
	return &tier{Shared: s, log: log}
}

func (t *tier) works() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !time.Now().Before(t.until)
}

// failed begins a pause, unless a concurrent call has begun it.
func (t *tier) failed(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.until) {
		t.until = now.Add(tierPause)
		t.log.Warn("the shared package cache failed; continuing without it", "step", what, "err", err,
			"ignored_for", tierPause.String())
	}
}

// call makes a call of Answers and reports whether it succeeded.
func (t *tier) call(ctx context.Context, what string, do func(context.Context) error) bool {
	if !t.works() || ctx.Err() != nil {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := do(bounded)
	if err != nil && ctx.Err() == nil {
		t.failed(what, err)
	}
	return err == nil
}

// take gets an answer and its layer from the second tier. Without an answer, the caller holds the lock of the key until
// release, so that other machines wait. If wait is false, take never locks. It waits for lockWait at most: a machine
// that waits for a slot may have the lock.
func (j *job) take(ctx context.Context, key string, wait bool) (a answer, ok bool, release func()) {
	t, holder := j.packager.tier, rand.Text()
	release = func() {}
	bad := "" // the digest of an invalid archive
	locked, waited := false, false
	for end := time.Now().Add(lockWait); ; {
		if a, ok = j.look(ctx, key); ok && a.Digest != "" {
			ok = a.Digest != bad && j.fetch(ctx, a)
			bad = a.Digest
		}
		if ok || locked || !wait || !t.works() || ctx.Err() != nil || time.Now().After(end) {
			return a, ok, release
		}
		if !t.call(ctx, "lock", func(ctx context.Context) (err error) {
			locked, err = t.Answers.Lock(ctx, key, holder, tierLease)
			return err
		}) {
			return answer{}, false, release
		}
		if locked { // look again: another machine may have just finished
			release = t.keep(ctx, key, holder)
			if waited {
				bad = "" // the other machine replaced it
			}
			continue
		}
		if !waited {
			j.tell("waiting for another machine that installs the same packages")
		}
		waited = true
		select {
		case <-ctx.Done():
		case <-time.After(tierPoll):
		}
	}
}

// keep extends a lock until release, which unlocks it.
func (t *tier) keep(ctx context.Context, key, holder string) (release func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // ends with release
		defer close(done)
		for held := true; held; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(tierLease / 3):
			}
			// Losing the lock only costs a second installation.
			t.call(ctx, "extend the lock", func(ctx context.Context) (err error) {
				held, err = t.Answers.Lock(ctx, key, holder, tierLease)
				return err
			})
		}
	}()
	return func() {
		cancel()
		<-done
		t.call(context.WithoutCancel(ctx), "unlock", func(ctx context.Context) error {
			return t.Answers.Unlock(ctx, key, holder)
		})
	}
}

// look returns the answer of the second tier to a key.
func (j *job) look(ctx context.Context, key string) (a answer, ok bool) {
	t := j.packager.tier
	var text []byte
	if !t.call(ctx, "get an answer", func(ctx context.Context) (err error) {
		text, err = t.Answers.Get(ctx, key, maxAnswerText+1)
		return err
	}) || len(text) == 0 {
		return answer{}, false
	}
	a, err := parseAnswer(text, j.need.Language.Installer.ValidLock, time.Now().UTC())
	if err != nil {
		t.log.Warn("the shared package cache has an invalid answer; installing", "key", key, "err", err)
		return answer{}, false
	}
	return a, time.Since(a.Made) <= j.packager.config.TTL
}

// parseAnswer decodes and validates an answer of the second tier.
func parseAnswer(text []byte, validLock func(string) bool, now time.Time) (a answer, err error) {
	if len(text) > maxAnswerText {
		return answer{}, errors.New("too long")
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, err
	}
	if a.Digest != "" && !trees.IsDigest(a.Digest) {
		return answer{}, errors.New("invalid digest")
	}
	if a.Lock != "" && (len(a.Lock) > maxLock || validLock != nil && !validLock(a.Lock)) {
		return answer{}, errors.New("invalid lock")
	}
	for _, name := range slices.Concat(a.Requested, a.Missing) {
		if len(a.Requested)+len(a.Missing) > maxRequirements+maxFound || len(name) > maxPath ||
			plainText(name) != name {
			return answer{}, errors.New("invalid names of packages")
		}
	}
	if err := checkPackages(a.Packages); err != nil {
		return answer{}, err
	}
	if a.Made.After(now) { // the clocks of machines differ
		a.Made = now
	}
	return a, nil
}

// fetch ensures that the cache has the layer of an answer, and reports whether it succeeded.
func (j *job) fetch(ctx context.Context, a answer) bool {
	t := j.packager.tier
	if _, err := j.cache.describe(a.Digest); err == nil {
		return true
	}
	if !t.works() {
		return false
	}
	j.tell("fetching the packages from the shared cache")
	from := t.receive(ctx, a.Digest)
	err := j.unpackLayer(from, a)
	from.end()
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
	case errors.Is(from.failure, fs.ErrNotExist): // archives may be removed at any time
	case from.failure != nil:
		t.failed("fetch an archive", from.failure)
	default:
		t.log.Warn("the shared package cache has an invalid archive; installing", "digest", a.Digest, "err", err)
	}
	return false
}

// offer puts the archive of a layer, and then its answer, into the second tier.
func (j *job) offer(ctx context.Context, keys []string, a answer) {
	t := j.packager.tier
	if !t.works() {
		return
	}
	text, err := json.Marshal(a)
	if err != nil || len(text) > maxAnswerText {
		t.log.Warn("the answer is too long to share", "bytes", len(text), "err", err)
		return
	}
	if a.Digest != "" {
		release, err := j.cache.trees.Keep(a.Digest)
		if err != nil {
			return // it was pruned
		}
		defer release()
		j.tell("sharing the packages with other machines")
		if err := t.send(ctx, a.Digest, j.cache.tree(a.Digest)); err != nil {
			if ctx.Err() == nil {
				t.failed("write an archive", err)
			}
			return
		}
	}
	for _, key := range keys {
		t.call(ctx, "put an answer", func(ctx context.Context) error {
			return t.Answers.Put(ctx, key, text, j.packager.config.TTL)
		})
	}
}

// errRefused returns the error of an archive that is refused.
func errRefused(format string, args ...any) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Op: "packages: unpack an archive", Msg: fmt.Sprintf(format, args...)}
}
