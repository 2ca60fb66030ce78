package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// ServeHTTP decides about one request within TLS, puts values in the place of placeholders, and passes it on. HTTP/1, HTTP/2 and upgrades
// are read and written anew, so nothing can be smuggled past.
func (o *opener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !o.gate.begin() {
		panic(http.ErrAbortHandler)
	}
	defer o.gate.work.Done()
	in := r.Context().Value(openedKey{}).(*opened)
	x := &opening{in: in, a: Attempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTPS, Name: in.name, Address: in.conn.to.Addr(), Port: in.conn.to.Port(),
		Allowed: true, Method: clip(r.Method, maxMethodSize), Path: clip(r.RequestURI, maxPath)}}
	defer x.log()
	if status, reason := x.refuses(r); reason != "" {
		x.a.Reason = reason
		says(w, status, fmt.Sprintf("%s:%d: %s", in.name, x.a.Port, reason))
		return
	}
	x.pass(w, r)
}

// opening is one request and its answer.
type opening struct {
	in             *opened
	a              Attempt
	reveals        revealed
	sent, received atomic.Int64 // bytes of the bodies
}

func (x *opening) log() {
	x.a.Duration = time.Since(x.a.Time)
	x.a.Sent, x.a.Received = x.sent.Load(), x.received.Load()
	x.in.conn.gate.log.add(x.a)
}

// refuses decides whether the request may pass. It puts the values in, if so.
func (x *opening) refuses(r *http.Request) (status int, reason string) {
	c := x.in.conn
	rules, d := c.gate.rules.Load(), c.gate.destination(c.to, false)
	x.a.Allowed = false
	name, err := hostName(r.Host)
	if err != nil || name != x.in.name {
		return http.StatusMisdirectedRequest, "the request is for another host than the connection"
	}
	v := rules.decide(d)
	if v.allowed {
		v = rules.agrees(v, name, d)
	}
	if x.a.Rule = v.rule; !v.allowed {
		return http.StatusForbidden, v.reason
	}
	if r.Method == http.MethodConnect {
		return http.StatusMethodNotAllowed, errConnect.Error()
	}
	x.reveals = rules.reveal(name, c.to.Port(), r.Header)
	x.a.Secrets, x.a.Misplaced = x.reveals.used, x.reveals.misplaced
	if len(x.reveals.lost) > 0 {
		return http.StatusForbidden, "the value of " + strings.Join(x.reveals.lost, ", ") + " is not known since the server restarted; give it again"
	}
	x.a.Allowed = true
	return 0, ""
}

// pass hands the request on and its answer back.
func (x *opening) pass(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &counted{r.Body, &x.sent}
	}
	ctx, cancel := context.WithCancel(r.Context()) // requests on a connection that was cut end with it
	defer cancel()
	defer context.AfterFunc(x.in.ctx, cancel)()
	proxy := httputil.ReverseProxy{
		Transport:     x.in.transport,
		FlushInterval: -1,
		Rewrite:       x.rewrite,
		ModifyResponse: func(answer *http.Response) error {
			x.a.Status = answer.StatusCode
			if len(x.reveals.used) > 0 {
				hideEchoes(answer, x.reveals.swaps)
			}
			if answer.StatusCode != http.StatusSwitchingProtocols {
				answer.Body = &counted{answer.Body, &x.received}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			x.a.Reason = passError(err)
			says(w, http.StatusBadGateway, fmt.Sprintf("%s:%d: %s", x.in.name, x.a.Port, x.a.Reason))
		},
		ErrorLog: x.in.conn.gate.opener.server.ErrorLog,
	}
	q := &hiding{w, x.reveals.swaps}
	proxy.ServeHTTP(q, r.WithContext(ctx))
	q.hide()
}

// rewrite makes the request to the server: the sandbox's own, but for the values. Whoever knows a value asks for an answer that can be
// searched for it.
func (x *opening) rewrite(p *httputil.ProxyRequest) {
	host := x.in.name
	if port := x.in.conn.to.Port(); port != portHTTPS {
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
	if len(x.reveals.used) > 0 && p.Out.Header.Get("Accept-Encoding") != "" {
		p.Out.Header.Set("Accept-Encoding", "identity")
	}
}

// passError says why a request did not get through, in words without addresses of the host.
func passError(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var invalid x509.CertificateInvalidError
	var own refusal
	switch {
	case errors.As(err, &own):
		return own.Error()
	case errors.As(err, &unknown):
		return "its certificate is from an authority that this host does not trust"
	case errors.As(err, &wrong):
		return "its certificate is for another name"
	case errors.As(err, &invalid):
		return "its certificate is not valid"
	case errors.Is(err, context.Canceled):
		return "the sandbox ended the request"
	}
	return dialError(err)
}

// says answers for the gate.
func says(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "fumehood: "+text+"\n") // a sandbox that has gone does not read it
}

func clip(s string, most int) string { return strings.Clone(s[:min(len(s), most)]) }

// counted counts the bytes of a body.
type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}
