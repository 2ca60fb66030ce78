package intercept

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// exchange is one request and its answer.
type exchange struct {
	conn           *Conn
	attempt        sandbox.NetworkAttempt
	swaps          []swap       // secrets that were inserted
	sent, received atomic.Int64 // bytes of the bodies
}

// handle decides about one request, inserts secrets, and forwards it. net/http parses and writes HTTP/1, HTTP/2 and
// upgrades, so nothing can be smuggled through.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.config.Begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.config.End()
	c := r.Context().Value(connKey{}).(*Conn)
	x := &exchange{conn: c, attempt: sandbox.NetworkAttempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTPS,
		Name: c.Name, Address: c.To.Addr(), Port: c.To.Port(),
		Method: r.Method, Path: r.RequestURI}}
	defer func() {
		x.attempt.Duration = time.Since(x.attempt.Time)
		x.attempt.Sent, x.attempt.Received = x.sent.Load(), x.received.Load()
		s.config.Log(x.attempt)
	}()
	policy, d := c.Policy()
	status, reason := x.decide(policy, d, r)
	if reason == "" {
		status, reason = x.insertSecrets(policy.Secrets, r.Header)
	}
	if reason != "" {
		x.fail(w, status, reason)
		return
	}
	x.attempt.Allowed = true
	s.forward(x, w, r)
}

// decide decides whether the request may pass. The reason of a refusal has a status.
func (x *exchange) decide(policy *rules.Rules, d rules.Destination, r *http.Request) (status int, reason string) {
	name, err := rules.HostName(r.Host)
	if err != nil || name != x.conn.Name {
		return http.StatusMisdirectedRequest, "the request is for another host than the connection"
	}
	v := policy.CheckName(d, name)
	if x.attempt.Rule = v.Rule; !v.Allowed {
		return http.StatusForbidden, v.Reason
	}
	if r.Method == http.MethodConnect {
		return http.StatusMethodNotAllowed, sniff.ErrConnect.Error()
	}
	return 0, ""
}

// insertSecrets inserts the secrets that this host may receive. It refuses a request whose secret is lost.
func (x *exchange) insertSecrets(secrets []rules.Secret, h http.Header) (status int, reason string) {
	found := findPlaceholders(secrets, x.conn.Name, x.conn.To.Port(), h)
	x.attempt.Misplaced = found.misplaced
	for _, s := range found.usable {
		x.attempt.Secrets = append(x.attempt.Secrets, s.Name)
	}
	if len(found.lost) > 0 {
		return http.StatusForbidden, "the server has restarted and does not know the value of " +
			strings.Join(found.lost, ", ") + "; set it again"
	}
	x.swaps = insertSecrets(h, found.usable)
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
	proxy := httputil.ReverseProxy{
		Transport:     x.conn.transport,
		FlushInterval: -1,
		Rewrite:       x.rewrite,
		ModifyResponse: func(answer *http.Response) error {
			x.attempt.Status = answer.StatusCode
			redactHeader(answer.Header, x.swaps)
			redactBody(answer, x.swaps)
			if answer.StatusCode != http.StatusSwitchingProtocols {
				answer.Body = &countedBody{answer.Body, &x.received}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			x.fail(w, http.StatusBadGateway, Explain(err))
		},
		ErrorLog: s.http.ErrorLog,
	}
	proxy.ServeHTTP(&headerRedactor{w, x.swaps}, r.WithContext(ctx))
	redactHeader(w.Header(), x.swaps) // the trailers
}

// rewrite makes the request to the server from the sandbox's. With a secret it asks for an answer that can be searched.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	host := x.conn.Name
	if port := x.conn.To.Port(); port != 443 {
		host += ":" + strconv.Itoa(int(port))
	}
	p.SetURL(&url.URL{Scheme: "https", Host: host})
	p.Out.URL.Path, p.Out.URL.RawPath, p.Out.URL.RawQuery = p.In.URL.Path, p.In.URL.RawPath, p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header[name]; values != nil {
			p.Out.Header[name] = values
		}
	}
	if len(x.swaps) > 0 && p.Out.Header.Get("Accept-Encoding") != "" {
		p.Out.Header.Set("Accept-Encoding", "identity")
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
