package httpd

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestKeyring: a key that is replaced or expires admits nobody and ends its requests. A rate survives a reload without
// a change of it.
func TestKeyring(t *testing.T) {
	make := func(name string, limits KeyLimits) (string, Key) {
		secret := NewSecret()
		key, err := NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		key.Limits = limits
		return secret, key
	}
	limits := KeyLimits{Rate: Rate{Requests: 1, Per: time.Hour}, OwnerLimits: engine.OwnerLimits{Sandboxes: 7}}
	first, alice := make("alice", limits)
	second, rotated := make("alice", limits)
	alice.Expires = time.Now().Add(time.Hour)
	k := NewKeyring(alice, rotated)
	use := func(secret string) (*Response, context.Context) {
		w := NewResponse(httptest.NewRecorder(), time.Second)
		ctx := w.revocable(t.Context())
		if key := k.find(secret); key == nil || !k.enter(key, w) {
			t.Error("the key is not admitted")
		}
		return w, ctx
	}
	_, ctx := use(first)
	other, otherCtx := use(second)
	if err := k.count(k.find(first)); err != nil {
		t.Error(err)
	}
	k.Replace([]Key{alice, rotated})
	if err := k.count(k.find(second)); sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("the rate is of a key, not of its name: %v", err)
	}
	if k.EndExpired(time.Now()) != 0 || ctx.Err() != nil {
		t.Error("a valid key was ended")
	}
	if k.EndExpired(alice.Expires) != 1 || context.Cause(ctx) != errKey || otherCtx.Err() != nil {
		t.Error("an expired key was not ended")
	}
	past := alice
	past.Expires = time.Now().Add(-time.Hour)
	k.Replace([]Key{past, rotated})
	if of := k.of("alice"); len(of) != 1 || of[0].Hash != rotated.Hash {
		t.Error("the name has a valid key")
	}
	k.Replace([]Key{past})
	if k.of("alice") != nil || otherCtx.Err() == nil || !other.revoked.Load() {
		t.Error("a removed key is valid")
	}
	if limits := k.OwnerLimits("alice"); limits.Ceiling == nil || limits.Ceiling.Mode != sandbox.NetworkNone ||
		limits.Sandboxes != 7 {
		t.Errorf("a name whose key has expired has the limits %+v", limits)
	}
	third, renamed := make("alice", limits)
	k.Replace([]Key{renamed})
	_, renamedCtx := use(third)
	renamed.Name = "bob"
	if k.Replace([]Key{renamed}); renamedCtx.Err() == nil {
		t.Error("a request goes on under the name that its key had")
	}
	k.Replace(nil)
	for _, k := range []*Keyring{k, nil} {
		if c := k.OwnerLimits("alice").Ceiling; c == nil || c.Mode != sandbox.NetworkNone ||
			k.OwnerLimits("").Ceiling != nil {
			t.Errorf("a name without a key has the ceiling %+v", c)
		}
	}
	k.Replace([]Key{past}) // whose only key has expired
	k.Replace(nil)
	if k.find(first) != nil || !k.Required() {
		t.Error("without keys, everybody is admitted")
	}
}
