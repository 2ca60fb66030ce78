package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
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
	maxQueries = 64               // that are answered at once; more are dropped, and asked again
	maxAnswers = 32               // addresses in one answer
	answerTTL  = 60               // seconds; pins live longer
	maxUDP     = 1232             // bytes of an answer over UDP at most (DNS flag day 2020)
	plainUDP   = 512              // where the question has no EDNS (RFC 1035)
	idleDNS    = 10 * time.Second // of a connection over TCP
)

// serveDNS answers datagrams to the gate's port 53.
func (g *gate) serveDNS() error {
	for _, a := range []netip.Addr{sandbox.LinkGateway4, sandbox.LinkGateway6} {
		at := tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(a.AsSlice()), Port: portDNS}
		c, err := gonet.DialUDP(g.stack, &at, nil, protocolOf(a))
		if err != nil {
			return &sandbox.Error{Op: "resolver", Err: err}
		}
		g.work.Go(func() { g.readQueries(c) })
		context.AfterFunc(g.ctx, func() { c.Close() })
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
		if !g.beginQuery() {
			continue
		}
		g.work.Go(func() {
			defer g.endQuery()
			if answer := g.answer(query, maxUDP); answer != nil {
				_, _ = c.WriteTo(answer, from) // lost, as a datagram may be
			}
		})
	}
}

func (g *gate) beginQuery() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.queries == maxQueries {
		return false
	}
	g.queries++
	return true
}

func (g *gate) endQuery() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queries--
}

// connectDNS answers queries over TCP: two bytes of length before each message.
func (g *gate) connectDNS(r *tcp.ForwarderRequest) {
	if !g.beginQuery() {
		r.Complete(true)
		return
	}
	defer g.endQuery()
	var queue waiter.Queue
	endpoint, failed := r.CreateEndpoint(&queue)
	r.Complete(failed != nil)
	if failed != nil {
		return
	}
	c := gonet.NewTCPConn(&queue, endpoint)
	defer c.Close()
	for {
		_ = c.SetDeadline(time.Now().Add(idleDNS))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
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

// question is what of a query counts.
type question struct {
	header dnsmessage.Header
	dnsmessage.Question
	name  string // canonical; "" if it is no name
	edns  bool
	limit int // bytes of the answer
}

// readQuestion reads a query with one question. Everything after it is ignored, but for the size that EDNS gives.
func readQuestion(b []byte, limit int) (question, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response {
		return question{}, errors.New("no query")
	}
	q := question{header: h, limit: min(limit, plainUDP)}
	if limit > maxUDP {
		q.limit = limit
	}
	all, err := p.AllQuestions()
	if err != nil || len(all) != 1 {
		return question{}, errors.New("not one question")
	}
	q.Question = all[0]
	if name, err := rules.CanonicalName(q.Name.String()); err == nil {
		q.name = name
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, nil
	}
	for {
		extra, err := p.AdditionalHeader()
		if err != nil || p.SkipAdditional() != nil {
			return q, nil
		}
		if extra.Type == dnsmessage.TypeOPT {
			q.edns, q.limit = true, max(q.limit, min(limit, int(extra.Class)))
		}
	}
}

// answer answers one query; nil drops it.
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

// lookUp decides about a question and resolves it. What is not allowed does not exist: clients give up at once, and only there.
func (g *gate) lookUp(q question, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	if q.header.OpCode != 0 || q.Class != dnsmessage.ClassINET {
		a.Reason = "it is no query of the internet"
		return dnsmessage.RCodeNotImplemented, nil
	}
	if q.name == "" {
		a.Reason = "it is no name"
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
		a.Reason = "only addresses are handed out" // nobody learns of other services or keys of the name
		return dnsmessage.RCodeSuccess, nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, resolveTimeout)
	defer cancel()
	found, err := g.options.Resolve(ctx, network, q.name+".")
	if err != nil {
		return resolveError(err, a)
	}
	return g.handOut(q.name, network, found, a)
}

func resolveError(err error, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		a.Reason = "there is no such name"
		return dnsmessage.RCodeNameError, nil
	}
	a.Reason = "the host's resolver failed"
	return dnsmessage.RCodeServerFailure, nil
}

// handOut pins the addresses that may be handed out, and returns them.
func (g *gate) handOut(name, network string, found []netip.Addr, a *Attempt) (dnsmessage.RCode, []netip.Addr) {
	policy, now := g.rules.Load(), time.Now()
	var out []netip.Addr
	kept := 0
	for _, address := range found {
		address = rules.Canonical(address)
		if address.Is4() != (network == "ip4") {
			continue
		}
		if !policy.MayResolveTo(address, g.host.has(address)) {
			kept++
			a.Address = address
			continue
		}
		if len(out) < maxAnswers {
			g.pins.add(address, name, now)
			out = append(out, address)
		}
	}
	if kept > 0 && len(out) == 0 {
		what, _ := rules.Classify(a.Address)
		if what == "" {
			what = "an address of the host"
		}
		a.Allowed, a.Reason = false, "its address is "+what
		return dnsmessage.RCodeSuccess, nil // the name may have good addresses of the other family
	}
	a.Address = netip.Addr{}
	if len(out) > 0 {
		a.Address = out[0]
	}
	return dnsmessage.RCodeSuccess, out
}

// reply encodes an answer. One that is too long for its datagram says so, and is asked for over TCP.
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
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Truncated: truncated,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: code})
	b.EnableCompression()
	err := errors.Join(b.StartQuestions(), b.Question(q.Question), b.StartAnswers())
	for _, a := range addresses {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		if a.Is4() {
			err = errors.Join(err, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		} else {
			err = errors.Join(err, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		err = errors.Join(err, h.SetEDNS0(maxUDP, dnsmessage.RCodeSuccess, false), b.StartAdditionals(),
			b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// resolveHost asks the host's resolver. Where the host has no route for IPv6, names have no such addresses.
func resolveHost(ctx context.Context, network, name string) ([]netip.Addr, error) {
	if network == "ip6" && !routes6() {
		return nil, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, network, name)
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		// The name may have addresses of the other family; only then it exists.
		other := map[string]string{"ip4": "ip6", "ip6": "ip4"}[network]
		if _, gone := net.DefaultResolver.LookupNetIP(ctx, other, name); gone == nil {
			return nil, nil
		}
	}
	return found, err
}

// routes6 reports whether the host can reach a public IPv6 address. Connecting UDP sends nothing.
func routes6() bool {
	c, err := net.Dial("udp6", "[2001:4860:4860::8888]:53")
	if err != nil {
		return false
	}
	c.Close()
	return true
}
