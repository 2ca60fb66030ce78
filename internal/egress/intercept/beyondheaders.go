package intercept

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxBody bounds a body into which values are put, in bytes.
const maxBody = 1 << 20

// insertBeyondHeaders puts the values of secrets that permit it into the path, the query and the body of a request.
// Placeholders elsewhere stay, and are reported.
func (s *Server) insertBeyondHeaders(x *exchange, secrets []rules.Secret, r *http.Request) (status int, reason string) {
	if len(secrets) == 0 {
		return 0, ""
	}
	if path, some := replaceIn(secrets, r.URL.EscapedPath(), x.put(s, sandbox.InPath, url.PathEscape)); some {
		r.URL.RawPath = path
		r.URL.Path, _ = url.PathUnescape(path) // both parts are encoded
	}
	r.URL.RawQuery, _ = replaceIn(secrets, r.URL.RawQuery, x.put(s, sandbox.InQuery, url.QueryEscape))
	if r.Body != nil && r.Body != http.NoBody {
		status, reason = s.insertIntoBody(x, secrets, r)
	}
	if x.inserted > maxInserted {
		return tooManyValues()
	}
	return status, reason
}

func tooManyValues() (status int, reason string) {
	return http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("it has more than %d values of secrets", maxInserted)
}

// put returns what replaces a placeholder in a place of the request: the encoded value, or itself.
func (x *exchange) put(s *Server, in sandbox.SecretPlace, encode func(string) string) func(*rules.Secret) string {
	return func(secret *rules.Secret) string {
		if !x.permits(secret, in) {
			x.misplace(s, secret, in)
			return secret.Placeholder
		}
		if x.inserted++; x.inserted > maxInserted {
			return secret.Placeholder
		}
		x.attempt.Secrets = addName(x.attempt.Secrets, secret.Name)
		return encode(secret.Value)
	}
}

func (x *exchange) permits(secret *rules.Secret, in sandbox.SecretPlace) bool {
	return secret.MayGoTo(x.conn.Name, x.conn.To.Port()) && slices.Contains(secret.Places, in)
}

// misplace reports a placeholder that stays. Another goroutine than that of the request may read its body.
func (x *exchange) misplace(s *Server, secret *rules.Secret, in sandbox.SecretPlace) {
	x.mu.Lock()
	x.misplaced = addName(x.misplaced, secret.Name)
	x.mu.Unlock()
	m := sandbox.NetworkMisplaced{Secret: secret.Name, Host: x.conn.Name, Place: in, Reason: sandbox.MisplacedPlace}
	switch {
	case !secret.MayGoTo(x.conn.Name, x.conn.To.Port()):
		m.Reason = sandbox.MisplacedHost
	case slices.Contains(secret.Places, in):
		m.Reason = sandbox.MisplacedContent
	}
	s.config.Misplaced(m)
}

// insertIntoBody puts values into a JSON document or a form of limited size.
func (s *Server) insertIntoBody(x *exchange, secrets []rules.Secret, r *http.Request) (status int, reason string) {
	watched := &watchedBody{ReadCloser: r.Body, secrets: secrets, spend: s.config.Spend,
		found: func(secret *rules.Secret) { x.misplace(s, secret, sandbox.InBody) }}
	encode := encoderOf(r.Header)
	may := func(one rules.Secret) bool { return x.permits(&one, sandbox.InBody) }
	if encode == nil || r.ContentLength > maxBody || !slices.ContainsFunc(secrets, may) {
		r.Body = watched
		return 0, ""
	}
	if reason := s.config.Reserve(bodyMemory); reason != "" {
		return http.StatusServiceUnavailable, reason
	}
	x.reserved += bodyMemory
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return http.StatusBadRequest, "its body broke off"
	}
	if len(body) > maxBody { // it was sent without a length
		watched.ReadCloser = readCloser{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		r.Body = watched
		return 0, ""
	}
	began := time.Now()
	text, _ := replaceIn(secrets, string(body), x.put(s, sandbox.InBody, encode))
	s.config.Spend(time.Since(began))
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	r.Header.Del("Content-Length") // net/http sends that of the field
	r.TransferEncoding = nil
	return 0, ""
}

// bodyMemory is what a body with values needs: as it came, as text and with up to maxInserted encoded values.
const bodyMemory = 3*maxBody + 3*maxInserted*rules.MaxValue

// encoderOf returns how a value is written in a body with these headers; nil means that no value is put into it.
func encoderOf(h http.Header) func(string) string {
	if !isPlain(h) {
		return nil
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil:
	case media == "application/x-www-form-urlencoded":
		return url.QueryEscape
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return escapeJSON
	case media == "multipart/form-data":
		return func(value string) string { return value }
	}
	return nil
}

// escapeJSON returns how a value is written within a JSON string.
func escapeJSON(value string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a string always has a JSON form
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), `"`), "\"\n")
}

type readCloser struct {
	io.Reader
	io.Closer
}

// watchedBody reports placeholders in a body that passes unchanged.
type watchedBody struct {
	io.ReadCloser
	secrets []rules.Secret
	found   func(*rules.Secret)
	spend   func(time.Duration)

	mu     sync.Mutex // guards all below: a transport may close a body while it reads
	window []byte     // the end of what was read, which may be the beginning of a placeholder
	seen   map[string]bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		began := time.Now()
		b.look(p[:n])
		b.spend(time.Since(began))
	}
	return n, err
}

func (b *watchedBody) look(piece []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window = append(b.window, piece...)
	longest := 0
	for i := range b.secrets {
		s := &b.secrets[i]
		longest = max(longest, len(s.Placeholder))
		if !b.seen[s.Name] && bytes.Contains(b.window, []byte(s.Placeholder)) {
			if b.seen == nil {
				b.seen = map[string]bool{}
			}
			b.seen[s.Name] = true
			b.found(s)
		}
	}
	if keep := longest - 1; len(b.window) > keep {
		b.window = b.window[:copy(b.window, b.window[len(b.window)-keep:])]
	}
}
