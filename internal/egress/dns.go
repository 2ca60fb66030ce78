package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	portDNS    = 53
	maxQueries = 64               // answered at once. More are dropped; clients retry
	maxAnswers = 32               // addresses in one answer
	answerTTL  = 60               // seconds; pins live longer
	maxQuery   = 4 << 10          // bytes of a query over TCP
	maxUDP     = 1232             // bytes of an answer over UDP (DNS flag day 2020)
	plainUDP   = 512              // the same, if the question has no EDNS (RFC 1035)
	idleDNS    = 10 * time.Second // a connection over TCP ends after this long without a query
	maxExtras  = 4                // additional records that are read. Clients send EDNS, and TSIG behind it
)

// serveDNS answers datagrams to the gate's port 53.
func (g *gate) serveDNS() error {
	for _, a := range []netip.Addr{sandbox.LinkGateway4, sandbox.LinkGateway6} {
		at := tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(a.AsSlice()), Port: portDNS}
		c, err := gonet.DialUDP(g.stack, &at, nil, protocolOf(a))
		if err != nil {
			return &sandbox.Error{Op: "resolver", Err: err}
		}
		g.start(func() { g.readQueries(c) })
		context.AfterFunc(g.ending.ctx, func() { c.Close() })
	}
	return nil
}

func (g *gate) readQueries(c *gonet.UDPConn) {
	var b [plainUDP + rules.MaxName]byte // a question has one name
	for {
		n, from, err := c.ReadFrom(b[:])
		if err != nil {
			return
		}
		query := append([]byte(nil), b[:n]...)
		if !g.active.beginQuery() {
			continue
		}
		if !g.start(func() {
			defer g.active.endQuery()
			if answer := g.answer(query, maxUDP); answer != nil {
				_, _ = c.WriteTo(answer, from) // a datagram may be lost
			}
		}) {
			g.active.endQuery()
		}
	}
}

// connectDNS answers queries over TCP: two bytes of length before each message.
func (g *gate) connectDNS(r *tcp.ForwarderRequest) {
	if !g.active.beginQuery() {
		r.Complete(true)
		return
	}
	defer g.active.endQuery()
	var queue waiter.Queue
	endpoint, failed := r.CreateEndpoint(&queue)
	r.Complete(failed != nil)
	if failed != nil {
		return
	}
	options := endpoint.SocketOptions() // these connections are in no room
	options.SetReceiveBufferSize(minBuffer, true)
	options.SetSendBufferSize(minBuffer, true)
	c := gonet.NewTCPConn(&queue, endpoint)
	ended := false // by the sandbox; a connection that the gate ends first would live on until the sandbox ends it too
	defer func() {
		if !ended {
			endpoint.Abort()
		}
		c.Close()
	}()
	for {
		_ = c.SetDeadline(time.Now().Add(idleDNS))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			ended = errors.Is(err, io.EOF)
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if len(query) > maxQuery {
			return
		}
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		answer := g.answer(query, 1<<16-1)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// otherRecord is the reason for an empty answer about an allowed name.
const otherRecord = "only A and AAAA are resolved"

// question is the relevant part of a query.
type question struct {
	header dnsmessage.Header
	dnsmessage.Question
	name  string // canonical; "" if it is not a name
	edns  bool
	limit int // bytes of the answer
}

// readQuestion reads a query with one question. It ignores everything after it except the size that EDNS gives, in one
// of the first additional records: a query of 4 KiB can have 300, each with a name of 127 parts.
func readQuestion(b []byte, limit int) (question, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response {
		return question{}, errors.New("not a query")
	}
	q := question{header: h, limit: min(limit, plainUDP)}
	if limit > maxUDP {
		q.limit = limit
	}
	if q.Question, err = p.Question(); err != nil {
		return question{}, errors.New("not a question")
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) { // a message of 64 KiB could have 13,000
		return question{}, errors.New("not one question")
	}
	if name, err := rules.CanonicalName(q.Name.String()); err == nil {
		q.name = name
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, nil
	}
	for range maxExtras {
		extra, err := p.AdditionalHeader()
		if err != nil || p.SkipAdditional() != nil {
			break
		}
		if extra.Type == dnsmessage.TypeOPT {
			q.edns, q.limit = true, max(q.limit, min(limit, int(extra.Class)))
		}
	}
	return q, nil
}

// answer returns the answer to one query, nil to drop it.
func (g *gate) answer(query []byte, limit int) []byte {
	q, err := readQuestion(query, limit)
	if err != nil {
		return nil
	}
	a := Attempt{Time: time.Now(), Protocol: sandbox.ProtocolDNS, Name: q.name, Sent: int64(len(query))}
	code, addresses := g.lookUp(q, &a)
	b := q.reply(code, addresses)
	a.Received, a.Duration = int64(len(b)), time.Since(a.Time)
	g.add(a)
	return b
}

// lookUp decides about a question and resolves it. A refused name does not exist, so that clients give up at once.
func (g *gate) lookUp(q question, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	if q.header.OpCode != 0 || q.Class != dnsmessage.ClassINET {
		a.Reason = "it is not a query of class IN"
		return dnsmessage.RCodeNotImplemented, nil
	}
	if q.name == "" {
		a.Reason = "it is not a name"
		return dnsmessage.RCodeNameError, nil
	}
	v := g.rules.Load().DecideLookup(q.name)
	a.Allowed, a.Rule, a.Reason = v.Allowed, v.Rule, v.Reason
	network := "ip4"
	switch {
	case !v.Allowed:
		return dnsmessage.RCodeNameError, nil
	case q.Type == dnsmessage.TypeAAAA:
		network = "ip6"
	case q.Type != dnsmessage.TypeA:
		a.Reason = otherRecord // so the sandbox learns no other services or keys of the name
		return dnsmessage.RCodeSuccess, nil
	}
	if q.name == rules.HostName {
		if network == "ip6" { // the other family is enough
			return dnsmessage.RCodeSuccess, nil
		}
		a.Address = sandbox.LinkGateway4
		return dnsmessage.RCodeSuccess, []netip.Addr{a.Address}
	}
	found, err := g.resolve(network, q.name)
	if err != nil {
		return resolveError(err, a)
	}
	return g.handOut(q.name, network, found, a)
}

func resolveError(err error, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	if isMissing(err) {
		a.Reason = "the name does not exist"
		return dnsmessage.RCodeNameError, nil
	}
	if refused := rules.Refusal(""); errors.As(err, &refused) {
		a.Allowed, a.Reason = false, refused.Error()
		return dnsmessage.RCodeServerFailure, nil // clients try again later
	}
	a.Reason = "the host's resolver failed"
	return dnsmessage.RCodeServerFailure, nil
}

// handOut pins the addresses that may be returned, and returns them.
func (g *gate) handOut(name, network string, found []netip.Addr, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	policy, now := g.rules.Load(), time.Now()
	var out []netip.Addr
	kept := 0
	for _, address := range found {
		address = rules.Canonical(address)
		if address.Is4() != (network == "ip4") || len(out) == maxAnswers {
			continue
		}
		g.meter.pace.spend(routesTime(address))
		if !policy.MayResolveTo(name, address, routeOfAddress(address)) {
			kept++
			a.Address = address
			continue
		}
		g.pins.add(address, name, now)
		out = append(out, address)
	}
	if kept > 0 && len(out) == 0 {
		route := routeOfAddress(a.Address)
		what, _ := rules.Classify(a.Address)
		if what == "" {
			what = string(route)
		}
		a.Allowed, a.Reason = false, rules.AddressIs(a.Address, what)
		if !policy.MayReveal(name, a.Address, route) {
			a.Address, a.Reason = netip.Addr{}, rules.AddressHidden(what)
		}
		return dnsmessage.RCodeSuccess, nil // the name may have good addresses of the other family
	}
	a.Address = netip.Addr{}
	if len(out) > 0 {
		a.Address = out[0]
	}
	return dnsmessage.RCodeSuccess, out
}

// reply encodes an answer. One that is too long for its datagram is marked as truncated; clients retry over TCP.
func (q *question) reply(code dnsmessage.RCode, addresses []netip.Addr) []byte {
	b, err := q.encode(code, addresses, false)
	if err == nil && len(b) > q.limit {
		b, err = q.encode(code, nil, true)
	}
	if err != nil {
		return nil
	}
	return b
}

func (q *question) encode(code dnsmessage.RCode, addresses []netip.Addr, truncated bool) ([]byte, error) {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{q.Question},
		Header: dnsmessage.Header{ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Truncated: truncated,
			RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: code}}
	for _, a := range addresses {
		var body dnsmessage.ResourceBody = &dnsmessage.AAAAResource{AAAA: a.As16()}
		if a.Is4() {
			body = &dnsmessage.AResource{A: a.As4()}
		}
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: body})
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(maxUDP, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, err
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	return m.Pack()
}
