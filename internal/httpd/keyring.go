package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Keyring holds the API keys of a server, which can be replaced while it serves. A nil keyring has no keys, and
// requests need none. Its methods are safe for concurrent use.
type Keyring struct {
	set atomic.Pointer[keySet]

	mu    sync.Mutex         // guards all below, and changes of set
	rates map[string]limiter // by name
	users map[*Response]*Key // requests being served, by the key that admitted them
}

// limiter counts the requests of a name.
type limiter struct {
	*rate.Limiter
	rate Rate
}

type sha256Hash = [sha256.Size]byte

// keySet is an immutable set of keys.
type keySet struct {
	keys   []Key
	byName map[string][]*Key
	byHash map[sha256Hash]*Key
}

// NewKeyring returns a keyring. Without keys it is nil.
func NewKeyring(keys ...Key) *Keyring {
	if len(keys) == 0 {
		return nil
	}
	k := &Keyring{rates: map[string]limiter{}, users: map[*Response]*Key{}}
	k.Replace(keys)
	return k
}

// Required reports whether requests need a key. That never changes: a keyring whose last key was removed admits nobody.
func (k *Keyring) Required() bool { return k != nil }

// Keys returns the keys. The caller must not modify them.
func (k *Keyring) Keys() []Key {
	if k == nil {
		return nil
	}
	return k.set.Load().keys
}

// Replace replaces all keys. Requests in progress of keys that are gone, streams too, end at once.
func (k *Keyring) Replace(keys []Key) {
	set := &keySet{keys: keys, byName: map[string][]*Key{}, byHash: map[sha256Hash]*Key{}}
	for i := range keys {
		key := &keys[i]
		set.byName[key.Name] = append(set.byName[key.Name], key)
		set.byHash[key.Hash] = key
	}
	k.mu.Lock()
	for name, limiter := range k.rates { // a name that had requests keeps what is left of its rate
		if of := set.byName[name]; of == nil || of[0].Limits.Rate != limiter.rate {
			delete(k.rates, name)
		}
	}
	k.set.Store(set)
	k.mu.Unlock()
	k.EndExpired(time.Now())
}

// EndExpired ends the requests in progress of keys that have expired or are gone, and returns how many these are.
func (k *Keyring) EndExpired(now time.Time) (ended int) {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for w, by := range k.users {
		if key := k.current(by); key == nil || key.Expired(now) {
			delete(k.users, w)
			w.revoke(errKey)
			ended++
		}
	}
	return ended
}

// enter notes that a request uses a key, until leave. It returns false if the key is gone.
func (k *Keyring) enter(key *Key, w *Response) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current(key) == nil {
		return false
	}
	k.users[w] = key
	return true
}

// current returns a key as it is in the set now, or nil: it is gone, or has another name.
func (k *Keyring) current(key *Key) *Key {
	if now := k.set.Load().byHash[key.Hash]; now != nil && now.Name == key.Name {
		return now
	}
	return nil
}

func (k *Keyring) leave(w *Response) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.users, w)
}

// find returns the key of a secret, or nil. It may have expired. It compares every key in constant time, so that timing
// reveals nothing.
func (k *Keyring) find(secret string) *Key {
	if k == nil {
		return nil
	}
	hash := sha256.Sum256([]byte(secret))
	keys, found := k.set.Load().keys, -1
	for i := range keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], keys[i].Hash[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return &keys[found]
}

// of returns the valid keys of a name.
func (k *Keyring) of(name string) (valid []*Key) {
	if k == nil {
		return nil
	}
	now := time.Now()
	for _, key := range k.set.Load().byName[name] {
		if !key.Expired(now) {
			valid = append(valid, key)
		}
	}
	return valid
}

// byHash returns the key of a hash, or nil. It may have expired.
func (k *Keyring) byHash(hash sha256Hash) *Key {
	if k == nil {
		return nil
	}
	return k.set.Load().byHash[hash]
}

// using returns the hash of the key that admitted a request, or nil.
func (k *Keyring) using(w *Response) *sha256Hash {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.users[w]; key != nil {
		return &key.Hash
	}
	return nil
}

// OwnerLimits returns the limits of an owner for the engine. A name without a valid key, also where the file of keys
// was removed, may have no network: nobody may use it, and the ceiling of a removed key may have been lower than that
// of the server.
func (k *Keyring) OwnerLimits(owner string) (limits engine.OwnerLimits) {
	if owner == "" {
		return limits
	}
	if k != nil {
		if keys := k.set.Load().byName[owner]; keys != nil {
			limits = keys[0].Limits.OwnerLimits
		}
	}
	if len(k.of(owner)) == 0 {
		limits.Ceiling = &sandbox.NetworkCeiling{Mode: sandbox.NetworkNone, Allow: []string{}, OfKey: true}
	}
	return limits
}

// count counts a request against the rate of the key's name. Busy: it is exceeded.
func (k *Keyring) count(key *Key) error {
	if key.Limits.Rate == (Rate{}) {
		return nil
	}
	k.mu.Lock()
	counted, ok := k.rates[key.Name]
	if !ok {
		counted = limiter{rate.NewLimiter(key.Limits.Rate.limit(), key.Limits.Rate.Requests), key.Limits.Rate}
		k.rates[key.Name] = counted
	}
	k.mu.Unlock()
	taken := counted.Reserve()
	wait := taken.Delay()
	if wait == 0 {
		return nil
	}
	taken.Cancel()
	return &sandbox.Error{Kind: sandbox.Busy, Msg: "this API key may send " + key.Limits.Rate.String() + " requests",
		Fix: "send fewer requests", RetryAfter: wait}
}

// Rate is a limit of requests: at most so many at once, and so many in each unit of time.
type Rate struct {
	Requests int
	Per      time.Duration // a second, a minute or an hour
}

const maxRate = 1_000_000

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate parses a rate such as 10/s, 600/m or 1000/h.
func ParseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	per := rateUnits[unit]
	if err != nil || n < 1 || n > maxRate || per == 0 {
		return Rate{}, sandbox.Invalidf("rate",
			"%.40q is not a rate, such as 10/s, 600/m or 1000/h, of at most %d", text, maxRate)
	}
	return Rate{n, per}, nil
}

// String returns what ParseRate parses; "" for no limit.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Requests) + "/" + unit
		}
	}
	return ""
}

func (r Rate) limit() rate.Limit { return rate.Limit(float64(r.Requests) / r.Per.Seconds()) }

// revocable gives a request a context that revoke cancels.
func (w *Response) revocable(ctx context.Context) context.Context {
	ctx, w.cancel = context.WithCancelCause(ctx)
	return ctx
}

// Revoked reports whether the request has ended because its API key was revoked or has expired.
func (w *Response) Revoked() bool { return w.revoked.Load() }

// revoke ends the request: its context, its body, and its connection where it was hijacked.
func (w *Response) revoke(cause error) {
	w.revoked.Store(true)
	if w.cancel != nil {
		w.cancel(cause)
	}
	w.control.SetReadDeadline(time.Now()) // an error means a writer without a connection, as in tests
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hijacked != nil {
		_ = w.hijacked.Close() // its handler reports the error
	}
}
