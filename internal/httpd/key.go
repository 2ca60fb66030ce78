package httpd

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Key is an API key on the server: its name, which owns what its requests make, and the SHA-256 of the secret. A plain,
// fast hash is enough, because secrets are random and long, unlike passwords.
type Key struct {
	Name    string
	Hash    [sha256.Size]byte
	Expires time.Time // zero is never
	// Limits are those of the name: all keys of one name have the same.
	Limits KeyLimits
}

// KeyLimits are the role and the limits of the keys of a name. The zero value is a key with the server's limits.
type KeyLimits struct {
	Operator bool // may see and end what other keys made
	Rate     Rate // of requests; the zero value is no limit
	engine.OwnerLimits
}

const (
	secretPrefix = "fhx_"
	secretBytes  = 32
	leastSecret  = 32 // characters: 128 bits, written in hexadecimal
	hashPrefix   = "sha256:"
	maxKeyName   = 64
)

// NewSecret returns a fresh secret of 256 random bits.
func NewSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the program rather than return an error
	return secretPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// NewKey makes a key from a secret, which it does not keep, or from "sha256:" and the 64 hexadecimal digits of a
// secret's hash. Secrets shorter than 32 characters could be guessed and are Invalid.
func NewKey(name, secretOrHash string) (Key, error) {
	if name == "" || len(name) > maxKeyName {
		return Key{}, sandbox.Invalidf("api key", "a name has 1 to %d characters", maxKeyName)
	}
	key := Key{Name: name}
	if digits, ok := strings.CutPrefix(secretOrHash, hashPrefix); ok {
		if n, err := hex.Decode(key.Hash[:], []byte(digits[:min(len(digits), 2*sha256.Size)])); err != nil ||
			n != sha256.Size || len(digits) != 2*sha256.Size {
			return Key{}, sandbox.Invalidf("api key", "%q: sha256: must be followed by 64 hexadecimal digits", name)
		}
		return key, nil
	}
	if len(secretOrHash) < leastSecret {
		return Key{}, sandbox.Invalidf("api key", "%q: a secret must have at least %d random characters", name,
			leastSecret)
	}
	key.Hash = sha256.Sum256([]byte(secretOrHash))
	return key, nil
}

// String is the form of a key in files: "sha256:" and the hash of the secret.
func (k Key) String() string { return hashPrefix + hex.EncodeToString(k.Hash[:]) }

// idDigits are enough to tell the keys of one name apart.
const idDigits = 8

// ID returns the first digits of the hash. It identifies one of several keys of a name.
func (k Key) ID() string { return hex.EncodeToString(k.Hash[:])[:idDigits] }

// Expired reports whether the key is no longer valid.
func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }
