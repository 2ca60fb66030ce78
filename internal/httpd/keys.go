package httpd

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Key is an API key on the server: its name, which owns what its requests make, and the SHA-256 of the secret. A plain,
// fast hash is enough, because secrets are random and long, unlike passwords.
type Key struct {
	Name string
	Hash [sha256.Size]byte
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

// errKey is the same for a missing key and a wrong one, so that neither reveals which keys exist.
var errKey = &sandbox.Error{Kind: sandbox.Unauthorized, Msg: "a valid API key is needed",
	Fixes: []sandbox.Hint{sandbox.FixSendKey}}

// authorize finds the key of a request. It compares every key in constant time, so that timing reveals nothing. It
// refuses two credentials in one request: a proxy might have checked the other.
func (s *Server) authorize(r *http.Request) (name string, err error) {
	if len(s.config.Keys) == 0 || r.Context().Value(local{}) != nil {
		return "", nil
	}
	bearers, plain := r.Header.Values("Authorization"), r.Header.Values("X-Api-Key")
	if len(bearers)+len(plain) != 1 {
		return "", errKey
	}
	var secret string
	if len(plain) == 1 {
		secret = plain[0]
	} else {
		scheme, rest, _ := strings.Cut(bearers[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", errKey
		}
		secret = strings.TrimLeft(rest, " ")
	}
	key := s.findKey(secret)
	if key == nil {
		return "", errKey
	}
	return key.Name, nil
}

func (s *Server) isKey(secret string) bool { return s.findKey(secret) != nil }

// findKey returns the key of a secret, or nil.
func (s *Server) findKey(secret string) *Key {
	hash := sha256.Sum256([]byte(secret))
	found := -1
	for i := range s.config.Keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], s.config.Keys[i].Hash[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return &s.config.Keys[found]
}

// Identity returns what a token of an owner must be bound to, so that it ends with the owner's API key: the hash of the
// key. ok is false if the server has no such key. Without keys, and on the local socket, the only owner is "".
func (s *Server) Identity(r *http.Request, owner string) (hash []byte, ok bool) {
	if owner == "" {
		return nil, len(s.config.Keys) == 0 || r.Context().Value(local{}) != nil
	}
	for i := range s.config.Keys {
		if s.config.Keys[i].Name == owner {
			return s.config.Keys[i].Hash[:], true
		}
	}
	return nil, false
}

// Admit makes a request one of an owner that was found without the key.
func (s *Server) Admit(w *Response, r *http.Request, owner string) {
	if w.Key = owner; owner != "" {
		w.owner = "key " + owner
	}
	admitted(r.Context(), w.owner)
}
