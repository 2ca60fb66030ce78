package intercept

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// exchange is one request and its answer.
type exchange struct {
	conn           *Conn
	attempt        sandbox.NetworkAttempt
	transport      http.RoundTripper
	fields         *answerFields
	sent, received atomic.Int64 // bytes of the bodies

	inserted int   // values of secrets
	reserved int64 // memory, besides requestMemory

	mu        sync.Mutex
	misplaced []string // names of secrets whose placeholders stay
}

// handle decides about one request, inserts secrets, and forwards it. net/http parses and writes HTTP/1, HTTP/2 and
// upgrades, so nothing can be smuggled through.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.config.Begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.config.End()
	defer s.contain()
	c := r.Context().Value(connKey{}).(*Conn)
	x := &exchange{conn: c, fields: &answerFields{spend: s.config.Spend}}
	x.transport = refunding{c.transport, x.fields}
	x.attempt = sandbox.NetworkAttempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTPS,
		Name: c.Name, Address: c.To.Addr(), Port: c.To.Port(),
		Method: r.Method, Path: r.RequestURI}
	defer func() {
		x.attempt.Duration = time.Since(x.attempt.Time)
		x.attempt.Sent, x.attempt.Received = x.sent.Load(), x.received.Load()
		x.mu.Lock()
		for _, name := range x.misplaced {
			x.attempt.Misplaced = addName(x.attempt.Misplaced, name)
		}
		x.mu.Unlock()
		s.config.Log(x.attempt)
	}()
	policy, d := c.Policy()
	status, reason := s.reserve()
	began := time.Now()
	if reason == "" {
		defer s.config.Release(requestMemory)
		status, reason = x.decide(policy, d, r)
	}
	if reason == "" {
		status, reason = x.insertSecrets(policy.Secrets, r.Header)
	}
	s.config.Spend(time.Since(began))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &refundedBody{r.Body, s.config.Spend} // as it came, without values
	}
	if reason == "" {
		defer func() { s.config.Release(x.reserved) }()
		status, reason = s.reserveBody(x, r)
	}
	if reason == "" {
		status, reason = s.insertBeyondHeaders(x, policy.Secrets, r)
	}
	if reason != "" {
		if r.ProtoMajor == 2 && status == http.StatusServiceUnavailable {
			// A client can make an answer wait without end.
			x.attempt.Reason = reason
			panic(http.ErrAbortHandler)
		}
		x.fail(w, status, reason)
		return
	}
	if policy.Hides(c.Name, c.To.Port()) {
		x.transport = cleaned{x.transport, func() *cleaner {
			now, _ := c.Policy()
			return s.cleanerFor(now)
		}}
	}
	x.attempt.Allowed = true
	s.forward(x, w, r)
}

// contain reports a panic, which net/http would hide, and aborts the request.
func (s *Server) contain() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		s.config.Failed(p)
	}
	panic(http.ErrAbortHandler)
}

// requestMemory is what a request and its answer may need at most: their heads, once as they are parsed and once as
// they are sent, what an HTTP/2 stream holds in both directions, and a copy.
const requestMemory = 2*(maxAnswerHead+200*maxHeadLines) + streamWindow + uploadWindow + 32<<10

func (s *Server) reserve() (status int, reason string) {
	return http.StatusServiceUnavailable, s.config.Reserve(requestMemory)
}

// frameMemory is what net/http takes at most to send a body, if a server of HTTP/2 accepts frames that long.
const frameMemory = 512 << 10

// reserveBody claims what sending the body of a request may need beyond requestMemory.
func (s *Server) reserveBody(x *exchange, r *http.Request) (status int, reason string) {
	if r.Body == nil || r.Body == http.NoBody {
		return 0, ""
	}
	memory := int64(frameMemory)
	if r.ContentLength >= 0 {
		memory = min(memory, r.ContentLength)
	}
	if reason = s.config.Reserve(memory); reason == "" {
		x.reserved += memory
	}
	return http.StatusServiceUnavailable, reason
}

// decide decides whether the request may pass. The reason of a refusal has a status.
func (x *exchange) decide(policy *rules.Rules, d rules.Destination, r *http.Request) (status int, reason string) {
	name, port, err := rules.Authority(r.Host)
	lines, _ := sizeOf(r.Header)
	switch {
	case lines > maxHeadLines: // of HTTP/1, requestHead counts them
		return http.StatusRequestHeaderFieldsTooLarge, tooManyLines
	case err != nil || name != x.conn.Name:
		return http.StatusMisdirectedRequest, "the request is for another host than the connection"
	case port != 0 && port != x.conn.To.Port():
		return http.StatusMisdirectedRequest, sniff.ErrPort.Error()
	case r.Method == http.MethodConnect:
		return http.StatusMethodNotAllowed, sniff.ErrConnect.Error()
	case !strings.HasPrefix(r.RequestURI, "/"): // origin-form (RFC 9112, section 3.2.1)
		return http.StatusBadRequest, "the target of the request is not a path"
	case !mayUpgrade(r.Header["Upgrade"]):
		// The stream behind any other protocol could carry further requests, or the answer to this one, uncleaned.
		return http.StatusNotImplemented, "an upgrade to anything but websocket"
	case policy.ReadOnly && !onlyReads(r):
		return http.StatusMethodNotAllowed, "only GET and HEAD are allowed here, without a body"
	}
	v := policy.CheckName(d, name)
	if x.attempt.Rule = v.Rule; !v.Allowed {
		return http.StatusForbidden, v.Reason
	}
	return 0, ""
}

// onlyReads reports whether a request is GET or HEAD, has no body, and asks for no other method or protocol.
func onlyReads(r *http.Request) bool {
	other := func(name string) bool { return r.Header[name] != nil }
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0 &&
		!slices.ContainsFunc([]string{"Upgrade", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}, other)
}

// mayUpgrade reports whether a request upgrades to websocket (RFC 6455), or not at all.
func mayUpgrade(to []string) bool {
	return len(to) == 0 || len(to) == 1 && isWebsocket(to[0])
}

// isWebsocket reports whether a value of Upgrade names websocket alone, in ASCII: EqualFold also takes another letter
// for the s.
func isWebsocket(value string) bool {
	const name = "websocket"
	value = strings.Trim(value, " \t")
	return len(value) == len(name) && strings.EqualFold(value, name)
}

// insertSecrets inserts the secrets that this host may receive. It refuses requests to a host of a secret whose value
// is lost: the gate could not remove the value from the answer.
func (x *exchange) insertSecrets(secrets []rules.Secret, h http.Header) (status int, reason string) {
	name, port := x.conn.Name, x.conn.To.Port()
	var lost []string
	for i := range secrets {
		if s := &secrets[i]; s.Value == "" && s.MayGoTo(name, port) {
			lost = append(lost, s.Name)
		}
	}
	if len(lost) > 0 {
		return http.StatusForbidden, "the server has restarted and does not know the value of " +
			strings.Join(lost, ", ") + "; set it again"
	}
	done := insertSecrets(secrets, name, port, h)
	x.attempt.Misplaced = done.misplaced
	if done.count > maxInserted {
		return tooManyValues()
	}
	x.attempt.Secrets, x.inserted = done.inserted, done.count
	return 0, ""
}

// forward forwards the request to the server, and its answer to the sandbox.
func (s *Server) forward(x *exchange, w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &countedBody{r.Body, &x.sent}
	}
	ctx, cancel := context.WithCancel(r.Context()) // requests end with their connection
	defer cancel()
	defer context.AfterFunc(x.conn.ctx, cancel)()
	var head *answerHead
	proxy := httputil.ReverseProxy{
		Transport:     x.transport,
		FlushInterval: -1,
		Rewrite:       x.rewrite,
		ModifyResponse: func(answer *http.Response) error {
			x.attempt.Status = answer.StatusCode
			if answer.StatusCode != http.StatusSwitchingProtocols {
				answer.Body = &countedBody{answer.Body, &x.received}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			x.fail(w, http.StatusBadGateway, Explain(cmp.Or(head.refusal(), x.fields.refusal(), err)))
		},
		ErrorLog: s.http.ErrorLog,
	}
	interim := r.ProtoMajor == 1 && r.Header["Expect"] == nil
	proxy.ServeHTTP(forwarded{w, interim}, markWebsocket(r.WithContext(withHead(ctx, &head, x.fields))))
}

// forwarded receives the answer to a request.
type forwarded struct {
	http.ResponseWriter
	interim bool // it may receive interim answers (1xx)
}

// WriteHeader drops interim answers where http.Server would write them beside other goroutines, which could end the
// process. In HTTP/2 it does not wait for its own goroutine once the client resets the stream, and ReverseProxy changes
// the headers meanwhile. In HTTP/1, the reader of a body that Expect announces writes to the same buffer.
func (f forwarded) WriteHeader(status int) {
	if f.interim || status >= http.StatusOK {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Hijack hands over the connection without loss.
func (f forwarded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return duplex.Hijack(f.ResponseWriter)
}

// Unwrap is for http.ResponseController.
func (f forwarded) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// rewrite makes the request to the server. It builds the target and the Host from checked parts.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	host := x.conn.Name
	if port := x.conn.To.Port(); port != 443 {
		host += ":" + strconv.Itoa(int(port))
	}
	in := p.In.URL
	p.Out.Host = host
	p.Out.URL = &url.URL{Scheme: "https", Host: host, Path: in.Path, RawPath: in.RawPath, ForceQuery: in.ForceQuery,
		RawQuery: strings.ReplaceAll(in.RawQuery, " ", "%20")} // package url checks no query
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header[name]; values != nil {
			p.Out.Header[name] = values
		}
	}
}

// fail answers the sandbox with an error of the gate.
func (x *exchange) fail(w http.ResponseWriter, status int, reason string) {
	x.attempt.Reason = reason
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "fumehood: %s:%d: %s\n", x.conn.Name, x.conn.To.Port(), reason) // fails if the sandbox has left
}

// countedBody counts the bytes of a body.
type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}
