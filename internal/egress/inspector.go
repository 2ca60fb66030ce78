package egress

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Reasons of refusals.
const (
	neither     = "it is neither TLS nor HTTP/1, so it does not state a name"
	noServer    = "a TLS hello without a server name"
	hiddenName  = "a TLS hello with Encrypted Client Hello hides the name"
	tooSlow     = "it took too long to state a name"
	notUpgraded = "an upgrade without an answer in HTTP"
	withoutTLS  = "a host of secrets requires TLS, or the gate could not remove their values from its answers"
	pipelined   = "too many requests wait for their answers"
)

var (
	errRefused   = errors.New("refused")
	errIntercept = errors.New("its TLS ends in the gate")
)

// inspector reads the bytes that a connection's sandbox sends, finds the names that they state, and has the rules check
// them (Rules.CheckName).
type inspector struct {
	c        *conn
	strict   bool // conn.mustState: it must state a name before anything passes
	enforces bool // names matter, so only checked bytes pass; otherwise the inspector only reads along

	kind     kind
	first    []byte // held back until the kind is known
	requests sniff.Framer
	upgraded chan int // the status of the answer to an upgrade

	serverMay  chan struct{} // closed when the server may speak; nil: at once
	allowOnce  sync.Once
	intercepts bool            // its TLS ends in the gate; final once serverMay is closed
	hides      bool            // values are removed from its answers
	hidden     bool            // values are or were removed from its answers
	ctx        context.Context // ends with the connection
	end        context.CancelFunc

	mu        sync.Mutex // guards below, intercepts, hides and hidden
	unread    unread
	name      string      // the last name that was stated and passed the check
	timer     *time.Timer // runs while something is incomplete
	exchanges *exchanges  // nil unless the kind is http1
}

type kind uint8

const (
	unknown kind = iota
	opaque       // passes unread
	http1
)

func newInspector(c *conn) *inspector {
	i := &inspector{c: c}
	i.ctx, i.end = context.WithCancel(c.gate.ending.ctx)
	policy, port := c.gate.rules.Load(), c.to.Port()
	i.strict = c.verdict.ByName && c.mustState(policy)
	i.enforces = c.verdict.ByName || policy.DeniesNames() || policy.InterceptsPort(port)
	if i.strict || policy.InterceptsPort(port) {
		i.serverMay = make(chan struct{})
		i.expect(true)
	}
	return i
}

// fromSandbox passes on the bytes that have been checked, and holds back the others.
func (i *inspector) fromSandbox(b []byte) error {
	err := i.read(b)
	if i.enforces {
		return err
	}
	if err != nil {
		i.passUnread()
	}
	return i.c.send(b)
}

// pass sends checked bytes. An inspector that only reads along sends all bytes itself.
func (i *inspector) pass(b []byte) error {
	if !i.enforces || len(b) == 0 {
		return nil
	}
	return i.c.send(b)
}

// read follows b, and passes its checked bytes.
func (i *inspector) read(b []byte) error {
	if i.kind == unknown {
		if i.first != nil {
			b = append(i.first, b...)
		}
		err := i.identify(b, false)
		switch {
		case errors.Is(err, sniff.ErrMore):
			if i.first == nil {
				b = bytes.Clone(b) // it is the caller's
			}
			i.first = b
			i.expect(true)
			return nil
		case errors.Is(err, errIntercept):
			i.first = bytes.Clone(b)
			return err
		}
		if i.first = nil; err != nil {
			return err
		}
		i.expect(false)
	}
	for i.kind == http1 && len(b) > 0 {
		held, n, err := i.requests.Feed(b)
		i.charge(&i.requests.Parsed)
		if sent := errors.Join(i.pass(held), i.pass(b[:n])); sent != nil {
			return errReset
		}
		if err != nil {
			return i.object(err)
		}
		if b = b[n:]; !i.requests.Halted {
			i.expect(i.requests.Pending())
			return nil
		}
		if err := i.upgrade(); err != nil {
			return err
		}
	}
	if err := i.checkUnread(b); err != nil {
		return err
	}
	return i.pass(b)
}

// charge charges the bytes that a parser has read.
func (i *inspector) charge(parsed *int) {
	i.c.gate.meter.pace.spend(time.Duration(*parsed) * parseTime)
	*parsed = 0
}

// identify determines the kind from the first bytes. end means that no more bytes will come.
func (i *inspector) identify(b []byte, end bool) error {
	i.c.gate.meter.pace.spend(time.Duration(len(b)) * scanTime)
	if len(b) > 0 && b[0] == sniff.TLSHandshake {
		h, err := sniff.ParseHello(b)
		switch {
		case errors.Is(err, sniff.ErrMore) && !end:
			return err
		case err != nil:
			return i.object(sniff.ErrHello)
		}
		i.c.gate.meter.pace.spend(helloTime)
		return i.checkHello(h, b)
	}
	switch other, err := sniff.OtherRecord(b); {
	case err != nil && !end:
		return err
	case other:
		return i.object(sniff.ErrHello)
	}
	if end {
		b = append(bytes.Clone(b), '\n')
	}
	is, err := sniff.LooksLikeRequest(b)
	switch {
	case err != nil:
		return err
	case is && end:
		return i.object(sniff.ErrHead) // half a head
	case is:
		i.readHTTP()
	case i.strict:
		return i.refuse(rules.Verdict{Reason: neither})
	default:
		i.passUnread()
		i.mu.Lock()
		i.unread.watches = i.enforces
		i.mu.Unlock()
	}
	return nil
}

func (i *inspector) passUnread() {
	i.kind = opaque
	i.allowServer()
}

func (i *inspector) readHTTP() {
	i.kind = http1
	i.requests.OnHead = i.checkRequest
	i.upgraded = make(chan int, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.exchanges = newExchanges(i.c.gate.add, i.upgraded)
}

// checkHello checks the name in a TLS hello, with which the connection begins.
func (i *inspector) checkHello(h sniff.Hello, b []byte) error {
	name, err := rules.CanonicalName(h.Server)
	switch {
	case !i.enforces:
		if err == nil {
			i.setName(name)
		}
	case h.Hidden:
		return i.refuse(rules.Verdict{Reason: hiddenName})
	case h.Server == "" && i.c.verdict.ByName:
		return i.refuse(rules.Verdict{Reason: noServer})
	case h.Server == "":
	case err != nil:
		return i.object(sniff.ErrHello)
	default:
		if err := i.checkName(name); err != nil {
			return err
		}
	}
	policy := i.c.gate.rules.Load()
	if name, _, _ = i.state(); !policy.Intercepts(name, i.c.to.Port()) {
		i.mu.Lock()
		i.unread.retry = sniff.NewRetry(h, b)
		i.mu.Unlock()
		i.passUnread()
		return nil
	}
	if i.serverMay == nil { // the policy changed after the server was allowed to speak
		i.c.refuse(rules.Verdict{Reason: policyChanged + "its requests are read now"})
		return errRefused
	}
	i.expect(false)
	i.mu.Lock()
	i.intercepts, i.hides = true, policy.Hides(name, i.c.to.Port())
	i.hidden = i.hides
	i.mu.Unlock()
	i.allowServer()
	return errIntercept
}

// checkName checks a name that the connection states. It repeats the check if the policy changes meanwhile, as
// SetPolicy may not have seen the name.
func (i *inspector) checkName(name string) error {
	for {
		policy := i.c.gate.rules.Load()
		v := policy.CheckName(i.c.destination(), name)
		if !v.Allowed {
			return i.refuse(v)
		}
		if i.setName(name); i.c.gate.rules.Load() == policy {
			return nil
		}
	}
}

// checkRequest checks the name in the head of a request, and returns the framing of its body.
func (i *inspector) checkRequest(head []byte) (sniff.Body, error) {
	q, err := sniff.ParseRequest(head)
	if err != nil {
		return sniff.Body{}, err
	}
	a := Attempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTP, Address: i.c.to.Addr(), Port: i.c.to.Port(),
		Allowed: true, Method: clip(q.Method, maxMethodSize), Path: clip(q.Target, maxPath),
		Sent: int64(len(head)) + max(q.Body.Length, 0), Rule: i.c.verdict.Rule,
		Misplaced: intercept.Misplaced(i.c.gate.rules.Load().Secrets, q.Values)}
	i.setRequest(a.Method, a.Path) // for the log, if it is refused
	name, port, err := rules.Authority(strings.Clone(q.Host))
	switch {
	case err != nil && (i.c.verdict.ByName || i.enforces && q.Host != "" && !rules.IsAddress(q.Host)):
		return sniff.Body{}, sniff.ErrHost // a server may read it as a name
	case err == nil && i.enforces && port != 0 && port != i.c.to.Port(): // another virtual host may listen there
		return sniff.Body{}, sniff.ErrPort
	case err == nil && i.enforces:
		if err := i.checkName(name); err != nil {
			return sniff.Body{}, err
		}
		if i.c.gate.rules.Load().Hides(name, i.c.to.Port()) { // its server may accept both at one port
			return sniff.Body{}, i.refuse(rules.Verdict{Reason: withoutTLS})
		}
	case err == nil:
		if i.setName(name); i.c.gate.rules.Load().Hides(name, i.c.to.Port()) { // since the policy changed
			i.c.refuse(rules.Verdict{Reason: policyChanged + withoutTLS})
			return sniff.Body{}, errRefused
		}
	}
	if i.enforces && statesNames(q.Upgrade) {
		return sniff.Body{}, sniff.ErrVersion
	}
	a.Name = name
	i.setRequest("", "")
	// A body would be sent in the old protocol or in the new one, so a request with one is no upgrade.
	i.requests.Halted = q.Upgrade != "" && q.Body == sniff.Body{}
	i.mu.Lock()
	ok := i.exchanges.begin(exchange{a, i.requests.Halted})
	i.mu.Unlock()
	if !ok {
		return sniff.Body{}, rules.Refusal(pipelined)
	}
	i.allowServer()
	return q.Body, nil
}

// statesNames reports whether one of the protocols of an upgrade, in lower case, states names of its own: HTTP/2, and
// TLS (RFC 2817).
func statesNames(protocols string) bool {
	return strings.Contains(protocols, "h2c") || strings.Contains(protocols, "http/") ||
		strings.Contains(protocols, "tls")
}

// upgrade waits for the answer to an upgrade. After 101 both sides speak another protocol.
func (i *inspector) upgrade() error {
	i.requests.Halted = false
	if !i.enforces {
		i.passUnread() // the following bytes may be of another protocol
		return nil
	}
	i.expect(false)
	i.c.inner.probe() // nothing is read meanwhile
	for {
		select {
		case status := <-i.upgraded:
			switch status {
			case 101:
				i.passUnread()
			case 0:
				return rules.Refusal(notUpgraded)
			}
			return nil
		case <-i.c.inner.readable:
			if i.c.closedForGood() {
				return errReset
			}
		case <-i.ctx.Done():
			return errReset
		}
	}
}

// object refuses bytes that cannot be parsed, where names matter.
func (i *inspector) object(err error) error {
	var reason rules.Refusal
	if errors.As(err, &reason) || errors.Is(err, errRefused) {
		return err
	}
	return i.refuse(rules.Verdict{Reason: err.Error()})
}

// refuse resets the connection and logs it as refused, where names matter.
func (i *inspector) refuse(v rules.Verdict) error {
	if i.enforces {
		i.c.refuse(v)
	}
	return errRefused
}

// setName notes a name that passed the check.
func (i *inspector) setName(name string) {
	i.mu.Lock()
	i.name = name
	i.mu.Unlock()
	i.c.mu.Lock()
	i.c.attempt.Name = name
	i.c.mu.Unlock()
}

func (i *inspector) setRequest(method, path string) {
	i.c.mu.Lock()
	i.c.attempt.Method, i.c.attempt.Path = method, path
	i.c.mu.Unlock()
}

// state returns the last name that was stated and passed the check, whether the connection is intercepted, and whether
// it is HTTP/1.
func (i *inspector) state() (name string, intercepted, http bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name, i.intercepts, i.exchanges != nil
}

// sandboxEnds passes on the bytes that were held back, as no more will come.
func (i *inspector) sandboxEnds() error {
	if i.enforces && i.kind == http1 && i.requests.Pending() {
		return errReset // half a head
	}
	i.expect(false)
	if i.kind != unknown || len(i.first) == 0 {
		i.allowServer()
		return nil
	}
	err := i.identify(i.first, true)
	if err == nil {
		err = i.checkUnread(i.first)
	}
	if err == nil {
		err = i.pass(i.first)
	}
	if !i.enforces {
		return nil // these bytes have passed unread
	}
	return err
}

// hide notes whether new rules remove values from the answers of this connection, and reports whether those before did
// not.
func (i *inspector) hide(r *rules.Rules) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.hides
	i.hides = i.intercepts && r.Hides(i.name, i.c.to.Port())
	i.hidden = i.hidden || i.hides
	return i.hides && !before
}

// hasHidden reports whether values are or were removed from the answers of this connection.
func (i *inspector) hasHidden() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hidden
}

// fromServer follows the answers. HTTP in answer to what passed unread is an error.
func (i *inspector) fromServer(b []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exchanges != nil {
		i.exchanges.feed(b)
		i.charge(&i.exchanges.answers.Parsed)
	}
	return i.unread.server(b)
}

// answersEnd logs the requests that have no answer.
func (i *inspector) answersEnd() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exchanges != nil {
		i.exchanges.stop()
	}
}

// waitServer waits until the server may speak. It returns false if the connection ends before.
func (i *inspector) waitServer() bool {
	if i.serverMay == nil {
		return true
	}
	select {
	case <-i.serverMay:
		return true
	case <-i.ctx.Done():
		return false
	}
}

func (i *inspector) allowServer() {
	if i.serverMay != nil {
		i.allowOnce.Do(func() { close(i.serverMay) })
	}
}

// expect bounds the time for which something may be incomplete, from its beginning.
func (i *inspector) expect(more bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !more && i.timer != nil:
		i.timer.Stop()
		i.timer = nil
	case more && i.timer == nil && i.enforces:
		i.timer = time.AfterFunc(sniff.HeadTimeout, func() {
			defer i.c.gate.contain()
			i.c.refuse(rules.Verdict{Reason: tooSlow})
		})
	}
}

// close ends all waiting.
func (i *inspector) close() {
	i.end()
	i.expect(false)
	i.answersEnd()
}
