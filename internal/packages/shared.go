package packages

import (
	"bytes"
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

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Shared is a second tier of the cache, which several machines use. The zero value is none. Whoever can change Answers decides what packages
// runs get; Archives need no trust, as each archive is held against the digest that was asked for.
type Shared struct {
	Answers  Answers
	Archives Archives
}

// Answers keeps small values, and locks. Its methods are safe for concurrent use and end with their context.
type Answers interface {
	// Get returns the value of a key, or its first bytes if it has more than most; nil if there is none.
	Get(ctx context.Context, key string, most int) ([]byte, error)

	// Put keeps a value for a time.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration) error

	// Lock takes the lock of a key for a holder, or extends it if the holder has it. The lock ends by itself after the lease. It returns false
	// if another has it.
	Lock(ctx context.Context, key, holder string, lease time.Duration) (bool, error)

	// Unlock frees the lock of a key if the holder has it.
	Unlock(ctx context.Context, key, holder string) error
}

// Archives keeps large values by their digest. Its methods are safe for concurrent use and end with their context.
type Archives interface {
	// Open reads an archive. It is not there: fs.ErrNotExist.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)

	// Put writes an archive as a whole, or not at all if its content ends with an error. One with the same digest is replaced.
	Put(ctx context.Context, digest string, content io.Reader) error
}

// Limits of the second tier: what a run waits for it at most, and how long it is ignored once it failed.
const (
	answerTimeout  = 2 * time.Second // one call of Answers
	archiveStall   = 5 * time.Second // nothing of an archive moves
	archiveTimeout = 2 * time.Minute // one archive
	driverGrace    = time.Second     // until a driver notices that its transfer has ended
	tierPause      = 30 * time.Second
	tierLease      = 15 * time.Second // a machine that died keeps others waiting for at most this
	tierPoll       = 500 * time.Millisecond

	maxAnswerText = 4 << 20 // bytes
)

// maxTierWait bounds the wait for a machine that installs.
var maxTierWait = installLimits.Timeout + archiveTimeout

// tier is a second tier, and whether it works. Each failure is logged, and from then on nobody asks it until the pause is over.
type tier struct {
	Shared
	log *slog.Logger

	mu    sync.Mutex
	until time.Time // it is ignored until then
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

// failed reports a failure, unless it is one of the calls that were under way when another failed.
func (t *tier) failed(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.until) {
		t.until = now.Add(tierPause)
		t.log.Warn("the shared cache of packages does not work; going on without it", "step", what, "err", err, "ignored_for", tierPause.String())
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

// take gets an answer and its layer from the second tier. If it has none, take leaves its lock with the caller, so that other machines wait
// until release. Without wait, it only looks.
func (j *job) take(ctx context.Context, key string, wait bool) (a answer, ok bool, release func()) {
	t, holder := j.packager.tier, rand.Text()
	release = func() {}
	bad := "" // the digest of an archive that was no good
	locked, waited := false, false
	for end := time.Now().Add(maxTierWait); ; {
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
		if locked { // look once more: another may have just finished
			release = t.keep(ctx, key, holder)
			if waited {
				bad = "" // it was replaced
			}
			continue
		}
		if !waited {
			j.tell("waiting for another machine, which installs the same")
		}
		waited = true
		select {
		case <-ctx.Done():
		case <-time.After(tierPoll):
		}
	}
}

// keep extends a lock until release, which frees it.
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
			// A lock that is lost costs a second installation, and nothing else.
			t.call(ctx, "extend the lock", func(ctx context.Context) (err error) {
				held, err = t.Answers.Lock(ctx, key, holder, tierLease)
				return err
			})
		}
	}()
	return func() {
		cancel()
		<-done
		t.call(context.WithoutCancel(ctx), "unlock", func(ctx context.Context) error { return t.Answers.Unlock(ctx, key, holder) })
	}
}

// look asks the second tier for the answer to a key.
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
		t.log.Warn("the shared cache of packages has an answer that is not one; installing", "key", key, "err", err)
		return answer{}, false
	}
	return a, time.Since(a.Made) <= j.packager.config.TTL
}

// parseAnswer reads an answer of the second tier, which may hold anything.
func parseAnswer(text []byte, validLock func(string) bool, now time.Time) (a answer, err error) {
	if len(text) > maxAnswerText {
		return answer{}, errors.New("it is too long")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&a); err != nil {
		return answer{}, err
	}
	if _, err := in.Token(); err != io.EOF {
		return answer{}, errors.New("something follows it")
	}
	if a.Digest != "" && !digestPattern.MatchString(a.Digest) {
		return answer{}, errors.New("its digest is not one")
	}
	if a.Lock != "" && (len(a.Lock) > maxLock || validLock != nil && !validLock(a.Lock)) {
		return answer{}, errors.New("its lock is not one")
	}
	for _, name := range slices.Concat(a.Asked, a.Missing) {
		if len(a.Asked)+len(a.Missing) > maxRequirements+maxFound || len(name) > maxPath || plainText(name) != name {
			return answer{}, errors.New("its names are not of packages")
		}
	}
	if err := checkPackages(a.Packages); err != nil {
		return answer{}, err
	}
	if a.Made.After(now) { // clocks differ
		a.Made = now
	}
	return a, nil
}

// fetch makes the layer of an answer from its archive, unless it is here, and reports whether it is here now.
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
		t.log.Warn("an archive of the shared cache of packages is refused; installing", "digest", a.Digest, "err", err)
	}
	return false
}

// offer puts an answer, and the archive of its layer, into the second tier. The answer comes last, so whoever finds it finds the archive.
func (j *job) offer(ctx context.Context, keys []string, a answer) {
	t := j.packager.tier
	if !t.works() {
		return
	}
	text, err := json.Marshal(a)
	if err != nil || len(text) > maxAnswerText {
		t.log.Warn("an answer is not shared", "bytes", len(text), "err", err)
		return
	}
	if a.Digest != "" {
		release, err := j.cache.keep(a.Digest, nil)
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
		t.call(ctx, "put an answer", func(ctx context.Context) error { return t.Answers.Put(ctx, key, text, j.packager.config.TTL) })
	}
}

// errRefused is why an archive is not taken.
func errRefused(format string, args ...any) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Op: "packages: unpack an archive", Msg: fmt.Sprintf(format, args...)}
}
