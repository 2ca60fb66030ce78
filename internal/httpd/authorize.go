package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// errKey is the same for a missing key, a wrong one and a revoked one, so that none reveals which keys exist.
var errKey = &sandbox.Error{Kind: sandbox.Unauthorized, Msg: "a valid API key is needed",
	Fixes: []sandbox.Hint{sandbox.FixSendKey}}

// errExpired is only shown to those who have the secret.
var errExpired = &sandbox.Error{Kind: sandbox.Unauthorized, Msg: "the API key has expired",
	Fix: "ask the operator for a new key"}

// authorize finds the key of a request and counts the request against the key's rate. It refuses two credentials in one
// request: a proxy might have checked the other. offers also finds the key among the offered sub-protocols of a
// WebSocket.
func (s *Server) authorize(w *Response, r *http.Request, offers bool) error {
	if !s.config.Keys.Required() || r.Context().Value(local{}) != nil {
		w.Operator = true // it can read the keys of the server
		return nil
	}
	bearers, plain := r.Header.Values("Authorization"), r.Header.Values("X-Api-Key")
	var offered []string
	if offers {
		offered = offeredKeys(r)
	}
	if len(bearers)+len(plain)+len(offered) != 1 {
		return errKey
	}
	var secret string
	switch {
	case len(plain) == 1:
		secret = plain[0]
	case len(offered) == 1:
		secret = offered[0]
	default:
		scheme, rest, _ := strings.Cut(bearers[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return errKey
		}
		secret = strings.TrimLeft(rest, " ")
	}
	key := s.config.Keys.find(secret)
	switch {
	case key == nil:
		return errKey
	case key.Expired(time.Now()):
		return errExpired
	}
	return s.admitKey(w, key)
}

// offeredKeys returns the keys among the sub-protocols that a client offers. One that is not Base64 is "".
func offeredKeys(r *http.Request) (secrets []string) {
	for _, value := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			if encoded, ok := strings.CutPrefix(strings.TrimSpace(name), api.KeyProtocol); ok {
				secret, err := base64.RawURLEncoding.DecodeString(encoded)
				if err != nil {
					secret = nil
				}
				secrets = append(secrets, string(secret))
			}
		}
	}
	return secrets
}

// admitKey makes a request one of a key. It ends when the key is revoked or expires.
func (s *Server) admitKey(w *Response, key *Key) error {
	w.Key, w.Operator, w.owner = key.Name, key.Limits.Operator, "key "+key.Name
	if !s.config.Keys.enter(key, w) { // revoked at this moment
		return errKey
	}
	if err := s.config.Keys.count(key); err != nil {
		s.metrics.overRate.Inc()
		return err
	}
	return nil
}

func (s *Server) isKey(secret string) bool { return s.config.Keys.find(secret) != nil }

// Identity is what a token is bound to, so that it ends with the API key whose request got it: the hash of the key.
// That of the owner "", who has no key, is zero.
type Identity [sha256.Size]byte

// IdentityOf returns the identity of a request that a key has admitted.
func (s *Server) IdentityOf(w *Response) Identity {
	if hash := s.config.Keys.using(w); hash != nil {
		return *hash
	}
	return Identity{}
}

// Identities returns the identities of an owner, one for each valid key. Without keys, and on the local socket, the
// only owner is "".
func (s *Server) Identities(r *http.Request, owner string) (list []Identity) {
	if owner == "" && (!s.config.Keys.Required() || r.Context().Value(local{}) != nil) {
		return []Identity{{}}
	}
	for _, key := range s.config.Keys.of(owner) {
		list = append(list, key.Hash)
	}
	return list
}

// Admit makes a request one of the key of a token that it has. Its errors are those of a request with the key.
func (s *Server) Admit(w *Response, r *http.Request, id Identity) error {
	if id != (Identity{}) {
		key := s.config.Keys.byHash(id)
		if key == nil { // revoked at this moment
			return errKey
		}
		if err := s.admitKey(w, key); err != nil {
			return err
		}
		w.cost.owner = w.owner
		*r = *r.WithContext(cputime.Label(r.Context(), w.owner)) // its caller uses r
	}
	if err := w.cost.afford(0); err != nil {
		return err
	}
	return admitted(r.Context(), w.owner)
}

// EndWith ends a request that needs no key once a key of an owner, which has one, is revoked or expires.
func (s *Server) EndWith(w *Response, owner string) error {
	if owner == "" {
		return nil
	}
	for _, key := range s.config.Keys.of(owner) {
		if s.config.Keys.enter(key, w) {
			return nil
		}
	}
	return errKey
}
