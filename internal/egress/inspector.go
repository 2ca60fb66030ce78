package egress

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// slowTimeout is how long a connection may take to say whom it is for, and how long a head may take that has begun.
const slowTimeout = 20 * time.Second

const (
	neither     = "it is neither TLS nor HTTP/1, so it does not say whom it is for"
	noServer    = "a TLS hello without a server name"
	hiddenName  = "a TLS hello with Encrypted Client Hello hides the name"
	notThere    = "the gate did not resolve that name to this address"
	tooSlow     = "it took too long to say whom it is for"
	notUpgraded = "an upgrade without an answer in HTTP"
	pipelined   = "too many requests wait for their answers"
)

// inspector reads a connection in passing, to find for whom it is.
type inspector struct {
	c      *conn
	strict bool // at 80 and 443, where names decide: it must say so, before anything passes in either direction
	holds  bool // names matter, so nothing passes that was not read; otherwise the inspector only reads along

	kind     kind
	first    []byte // what is held back until the kind is known
	requests framer
	upgraded chan int      // the status of the answer to an upgrade
	cleared  chan struct{} // closed when the server may speak; nil: at once
	clearing sync.Once
	opens    bool          // its TLS ends in the gate; final once cleared is closed
	ends     chan struct{} // closed with the connection
	closing  sync.Once

	mu    sync.Mutex
	name  string      // the last one that the connection said, once agreed with
	timer *time.Timer // runs while something is incomplete
	pairs exchanges
}

type kind uint8

const (
	unknown kind = iota
	opaque       // passes unread
	http1
)

func newInspector(c *conn) *inspector {
	i := &inspector{c: c, ends: make(chan struct{})}
	rules := c.gate.rules.Load()
	i.strict = c.verdict.byName && (c.to.Port() == 80 || c.to.Port() == 443)
	i.holds = c.verdict.byName || rules.deny.namesAny() || rules.opensPort(c.to.Port())
	if i.strict || rules.opensPort(c.to.Port()) {
		i.cleared = make(chan struct{})
		i.expect(true)
	}
	return i
}

// fromSandbox passes bytes on, as far as they may pass by now.
func (i *inspector) fromSandbox(b []byte) error {
	if i.holds {
		return i.read(b, i.c.send)
	}
	if i.read(b, nil) != nil {
		i.becomes(opaque)
	}
	return i.c.send(b)
}

// read follows b. Where send is nil, nothing is held back and nothing sent.
func (i *inspector) read(b []byte, send func([]byte) error) error {
	if i.kind == unknown {
		if i.first != nil {
			b = append(i.first, b...)
		}
		err := i.identify(b, false)
		if errors.Is(err, errMore) {
			if i.first == nil {
				b = bytes.Clone(b) // it is the caller's
			}
			i.first = b
			i.expect(true)
			return nil
		}
		if i.first = nil; errors.Is(err, errOpens) {
			i.first = bytes.Clone(b)
		}
		if err != nil {
			return err
		}
		i.expect(false)
	}
	for i.kind == http1 && len(b) > 0 {
		held, n, err := i.requests.feed(b)
		if send != nil {
			if sent := send2(send, held, b[:n]); sent != nil {
				return sent
			}
		}
		if err != nil {
			return i.objects(err)
		}
		b = b[n:]
		if i.requests.halt {
			if send == nil {
				i.becomes(opaque) // what follows may be another protocol
				return nil
			}
			if err := i.upgrade(); err != nil {
				return err
			}
			continue
		}
		i.expect(len(bytes.Trim(i.requests.head, "\r\n")) > 0)
		return nil
	}
	if send == nil || len(b) == 0 {
		return nil
	}
	return send(b)
}

func send2(send func([]byte) error, first, second []byte) error {
	if len(first) > 0 {
		if err := send(first); err != nil {
			return err
		}
	}
	if len(second) > 0 {
		return send(second)
	}
	return nil
}

// identify finds out what the first bytes begin. At the end of what the sandbox sends, more is not to come.
func (i *inspector) identify(b []byte, end bool) error {
	if len(b) > 0 && b[0] == tlsHandshake {
		h, err := parseHello(b)
		switch {
		case errors.Is(err, errMore) && len(b) < maxFirst+tlsRecordMax && !end:
			return errMore
		case err != nil:
			return i.objects(errHello)
		}
		if err := i.greets(h); err != nil {
			return err
		}
		if i.c.gate.rules.Load().opensAt(i.said(), i.c.to.Port()) {
			i.expect(false)
			i.mu.Lock()
			i.opens = true
			i.mu.Unlock()
			i.lets()
			return errOpens
		}
		i.becomes(opaque)
		return nil
	}
	is, err := looksLikeRequest(b)
	if err != nil && !end {
		return errMore
	}
	if is {
		i.becomes(http1)
		return nil
	}
	if i.strict {
		return i.refuse(verdict{reason: neither})
	}
	i.becomes(opaque)
	return nil
}

func (i *inspector) becomes(k kind) {
	if i.kind = k; k == http1 {
		i.requests.ends, i.requests.over = i.asks, func() {}
		i.mu.Lock()
		i.pairs.log, i.pairs.answered = i.c.gate.log.add, i.answered
		i.pairs.init()
		i.mu.Unlock()
		i.upgraded = make(chan int, 1)
		return
	}
	i.lets()
}

// greets checks the name in a TLS hello.
func (i *inspector) greets(h hello) error {
	if !i.holds {
		if name, err := canonicalName(h.server); err == nil {
			i.agreed(name)
		}
		return nil
	}
	byName := i.c.verdict.byName
	switch {
	case h.hidden:
		return i.refuse(verdict{reason: hiddenName})
	case h.server == "" && byName:
		return i.refuse(verdict{reason: noServer})
	case h.server == "":
		return nil
	}
	name, err := canonicalName(h.server)
	if err != nil {
		return i.refuse(verdict{reason: errHello.Error()})
	}
	return i.checks(name)
}

// checks decides about a name that the connection said.
func (i *inspector) checks(name string) error {
	rules, d := i.c.gate.rules.Load(), i.c.gate.destination(i.c.to, false)
	v := rules.decide(d)
	if v.allowed {
		v = rules.agrees(v, name, d)
	}
	if !v.allowed {
		return i.refuse(v)
	}
	i.agreed(name)
	return nil
}

// agrees decides whether a connection that is allowed may be for a name.
func (r *Rules) agrees(v verdict, name string, d destination) verdict {
	one := r.named(name, d.to.Port(), false)
	if !v.byName {
		if one.reason == denied {
			return one
		}
		v.name = name
		return v
	}
	if !one.allowed {
		return one
	}
	for _, resolved := range d.names {
		if resolved == name {
			return one
		}
	}
	one.allowed, one.reason = false, notThere
	return one
}

// asks checks the head of a request, and says how its body is framed.
func (i *inspector) asks(head []byte) (body, error) {
	q, err := parseRequest(head)
	if err != nil {
		return body{}, err
	}
	// What is kept for the log must not keep the whole head.
	method, path := strings.Clone(q.method[:min(len(q.method), maxMethodSize)]), strings.Clone(q.target[:min(len(q.target), maxPath)])
	a := Attempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTP, Address: i.c.to.Addr(), Port: i.c.to.Port(), Allowed: true,
		Method: method, Path: path, Sent: int64(len(head)) + max(q.body.length, 0), Rule: i.c.verdict.rule}
	i.c.mu.Lock()
	i.c.attempt.Method, i.c.attempt.Path = method, path // for the log, if it is refused
	i.c.mu.Unlock()
	a.Misplaced = i.c.gate.rules.Load().misplaced(q.fields)
	name, err := hostName(strings.Clone(q.host))
	switch {
	case err != nil && i.c.verdict.byName:
		return body{}, errHost
	case err == nil && i.holds:
		if err := i.checks(name); err != nil {
			return body{}, err
		}
	case err == nil:
		i.agreed(name)
	}
	if i.holds && strings.Contains(q.upgrade, "h2c") {
		return body{}, errVersion
	}
	a.Name = name
	i.c.mu.Lock()
	i.c.attempt.Method, i.c.attempt.Path = "", ""
	i.c.mu.Unlock()
	// A body would be sent in the old protocol or in the new one, so a request with one is no upgrade.
	i.requests.halt = q.upgrade != "" && q.body == body{}
	i.mu.Lock()
	ok := i.pairs.sent(exchange{a, i.requests.halt})
	i.mu.Unlock()
	if !ok {
		return body{}, refusal(pipelined)
	}
	i.lets()
	return q.body, nil
}

// upgrade waits for the answer to an upgrade. After 101 both sides speak another protocol.
func (i *inspector) upgrade() error {
	i.requests.halt = false
	i.expect(false)
	select {
	case status := <-i.upgraded:
		switch {
		case status == 101:
			i.becomes(opaque)
		case status == 0 && i.holds:
			return refusal(notUpgraded)
		}
		return nil
	case <-i.ends:
		return errReset
	}
}

// answered passes the status on to upgrade, which waits for one answer at a time.
func (i *inspector) answered(status int) {
	select {
	case i.upgraded <- status:
	default:
	}
}

// objects refuses what cannot be read, where names matter.
func (i *inspector) objects(err error) error {
	var own refusal
	if !i.holds || errors.As(err, &own) || errors.Is(err, errRefused) {
		return err
	}
	return i.refuse(verdict{reason: err.Error()})
}

var (
	errRefused = errors.New("refused")
	errOpens   = errors.New("its TLS ends in the gate")
)

// refuse resets the connection and logs it as refused.
func (i *inspector) refuse(v verdict) error {
	if !i.holds {
		return errRefused
	}
	i.c.refuse(v)
	return errRefused
}

// agreed notes a name that the connection may be for.
func (i *inspector) agreed(name string) {
	i.mu.Lock()
	i.name = name
	i.mu.Unlock()
	i.c.mu.Lock()
	i.c.attempt.Name = name
	i.c.mu.Unlock()
}

// said is the last name that the connection said, once agreed with.
func (i *inspector) said() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name
}

// sandboxEnds passes on what is held back when no more comes.
func (i *inspector) sandboxEnds() error {
	if i.kind == http1 && len(bytes.Trim(i.requests.head, "\r\n")) > 0 && i.holds {
		return errReset // half a head
	}
	i.expect(false)
	if i.kind != unknown || len(i.first) == 0 {
		i.lets()
		return nil
	}
	b := i.first
	if err := i.identify(b, true); err != nil || i.kind == http1 || !i.holds {
		return err
	}
	return i.c.send(b)
}

// fromServer follows the answers.
func (i *inspector) fromServer(b []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pairs.log != nil {
		i.pairs.feed(b)
	}
}

func (i *inspector) serverEnds() { i.stop() }

// isOpened reports whether the connection's TLS ends in the gate.
func (i *inspector) isOpened() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.opens
}

// isHTTP reports whether the connection has turned out to be HTTP/1.
func (i *inspector) isHTTP() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pairs.log != nil
}

func (i *inspector) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pairs.log != nil {
		i.pairs.stop()
	}
}

// mayAnswer waits until the server may speak. It fails if the connection ends before.
func (i *inspector) mayAnswer() bool {
	if i.cleared == nil {
		return true
	}
	select {
	case <-i.cleared:
		return true
	case <-i.ends:
		return false
	}
}

// lets the server speak.
func (i *inspector) lets() {
	if i.cleared != nil {
		i.clearing.Do(func() { close(i.cleared) })
	}
}

// expect bounds the time that something may be incomplete, from when it began.
func (i *inspector) expect(more bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !more && i.timer != nil:
		i.timer.Stop()
		i.timer = nil
	case more && i.timer == nil && i.holds:
		i.timer = time.AfterFunc(slowTimeout, func() { i.c.refuse(verdict{reason: tooSlow}) })
	}
}

// close ends all waiting.
func (i *inspector) close() {
	i.closing.Do(func() {
		close(i.ends)
		i.expect(false)
		i.stop()
	})
}
