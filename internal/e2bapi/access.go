package e2bapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// inside handles a request to a sandbox.
type inside = httpd.InSandbox

// Headers with an access token of a sandbox: of its services, and of its ports.
const (
	headerToken   = "X-Access-Token"
	headerTraffic = "E2B-Traffic-Access-Token"
)

func unauthorized(msg string) error { return &sandbox.Error{Kind: sandbox.Unauthorized, Msg: msg} }

var errToken = unauthorized(
	"unauthorized access, please provide a valid access token or method signing if supported")

// inside finds the sandbox of a request, whose access token it requires.
func (f *face) inside(h inside) handler { return f.insideWith(false, h) }

// insideAsPort does so for requests to the port of the code interpreter. E2B's clients send some with the token of
// ports alone.
func (f *face) insideAsPort(h inside) handler { return f.insideWith(true, h) }

func (f *face) insideWith(traffic bool, h inside) handler {
	return func(w *httpd.Response, r *http.Request) error {
		a, _ := f.addressOf(r)
		w.Sandbox = string(a.id)
		owner, key, ok := f.tokenOwner(r, a.id, traffic)
		if !ok {
			return errToken
		}
		if err := f.Admit(w, r, key); err != nil {
			return err
		}
		s, err := f.Engine().Sandbox(r.Context(), owner, string(a.id))
		if s, err = f.living(w, a.id, s, err); s == nil {
			return err
		}
		return h(w, r, s)
	}
}

// tokenOwner returns the owner of a sandbox whose access token a request has, or the token of its ports if traffic
// suffices. It also returns the key that the token is bound to.
func (f *face) tokenOwner(r *http.Request, id sandbox.ID, traffic bool) (owner string, key httpd.Identity, ok bool) {
	for _, name := range []string{headerToken, headerTraffic} {
		token := r.Header.Get(name)
		if owner, ok = ownerIn(token); !ok {
			continue
		}
		for _, key := range f.Identities(r, owner) {
			if f.tokens.fits(token, traffic, key, id) {
				return owner, key, true
			}
		}
	}
	return "", key, false
}

// living returns a sandbox that was found, or nil if it has ended: then the request is answered in the words of E2B's
// proxy, unless there is an error.
func (f *face) living(w *httpd.Response, id sandbox.ID, s *engine.Sandbox, err error) (*engine.Sandbox, error) {
	if err == nil && s != nil {
		err = s.Ended() // it may be ending
	}
	if s == nil && err == nil || sandbox.KindOf(err) == sandbox.NotFound {
		return nil, f.WriteStatus(w, http.StatusBadGateway, map[string]any{"sandboxId": id,
			"code": http.StatusBadGateway, "message": "The sandbox was not found"})
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Operations that a signature permits.
const (
	opRead  = "read"
	opWrite = "write"
)

// signed finds the sandbox of a request for a file, by its access token or by the signature in its query, which permits
// one operation on one path. The sandbox may be named by the signature alone.
func (f *face) signed(op string, h inside) handler {
	return func(w *httpd.Response, r *http.Request) error {
		a, named := f.addressOf(r)
		if r.Header.Get(headerToken) != "" {
			if _, _, ok := f.tokenOwner(r, a.id, false); !named || !ok {
				return unauthorized("access token present in header but does not match")
			}
			return f.inside(h)(w, r)
		}
		q := r.URL.Query()
		if q.Get("signature") == "" {
			return unauthorized("missing signature query parameter")
		}
		s, key, err := f.signer(w, r, a.id, newSignature(op, q.Get("path"), q.Get("username"),
			q.Get("signature_expiration")), q.Get("signature"))
		if s == nil {
			return unauthorized("invalid signature")
		}
		if text := q.Get("signature_expiration"); text != "" {
			second, err := strconv.ParseInt(text, 10, 64)
			if err != nil || time.Now().Unix() > second {
				return unauthorized("signature is already expired")
			}
		}
		if err := f.Admit(w, r, key); err != nil {
			return err
		}
		if s, err = f.living(w, s.ID(), s, err); s == nil {
			return err
		}
		return h(w, r, s)
	}
}

// signer returns the sandbox whose access token signed: that of an id, or any if the id is "". It also returns the key
// that the token is bound to.
func (f *face) signer(w *httpd.Response, r *http.Request, id sandbox.ID, signature *signature, given string) (
	s *engine.Sandbox, key httpd.Identity, err error) {
	text, ok := strings.CutPrefix(given, signatureVersion)
	code, err := base64.RawStdEncoding.DecodeString(text)
	if !ok || err != nil || len(code) != sha256.Size {
		return nil, key, nil
	}
	if id == "" {
		var tokens int
		id, tokens = f.search(r, signature, code)
		w.Steps(tokens / searchStep)
	}
	if s, err = f.Engine().SandboxOfAny(r.Context(), id); s == nil {
		return nil, key, nil
	}
	for _, key := range f.Identities(r, s.Owner()) {
		if signature.isBy(f.tokens.of(s.Owner(), key, s.ID()), code) {
			return s, key, err
		}
	}
	return nil, key, nil
}

// searchStep is the number of tokens that one step of a search compares.
const searchStep = 8

// search returns the id of the sandbox whose token made a signature, or "", and the number of tokens that it compared.
// Anybody may cause a search. So one runs at a time, and uses the tokens that the last one made.
func (f *face) search(r *http.Request, signature *signature, code []byte) (found sandbox.ID, tokens int) {
	f.searching.Lock()
	defer f.searching.Unlock()
	made := make(map[tokenFor]string, len(f.made))
	f.Engine().Each(func(owner string, id sandbox.ID) {
		for _, key := range f.Identities(r, owner) {
			is := tokenFor{id, key}
			token, ok := f.made[is]
			if !ok {
				token = f.tokens.of(owner, key, id)
			}
			if made[is] = token; signature.isBy(token, code) {
				found = id
			}
		}
	})
	f.made = made
	return found, len(made)
}

// tokenFor identifies a token.
type tokenFor struct {
	id  sandbox.ID
	key httpd.Identity
}

// signature is what a signature signs, besides the access token that is its key.
type signature struct {
	begun hash.Cloner // SHA-256 of all before the token, so that each candidate costs the same for any path
	rest  string
}

const signatureVersion = "v1_"

func newSignature(op, path, user, expiration string) *signature {
	begun := sha256.New()
	begun.Write([]byte(path + ":" + op + ":" + user + ":"))
	s := &signature{begun: begun.(hash.Cloner)}
	if expiration != "" {
		s.rest = ":" + expiration
	}
	return s
}

// isBy reports whether an access token made a signature.
func (s *signature) isBy(token string, given []byte) bool {
	h, err := s.begun.Clone()
	if err != nil {
		panic(err) // SHA-256 is always cloneable
	}
	h.Write([]byte(token + s.rest))
	return subtle.ConstantTimeCompare(h.Sum(nil), given) == 1
}

// checkUser refuses users that E2B's templates do not have. Those that they have all stand for the code's user: nothing
// in a sandbox gets the rights of root.
func checkUser(name string) error {
	if name == "" || name == "user" || name == "root" {
		return nil
	}
	return unauthorized("invalid username: '" + strings.ToValidUTF8(name[:min(len(name), 64)], "?") + "'")
}
