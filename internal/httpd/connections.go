package httpd

import (
	queue "container/list"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// sendBuffer is the size of the kernel's send buffer of a connection. By default it grows to megabytes of kernel memory
// and drains in bursts of a third, so that a slow client seems stalled.
const sendBuffer = 256 << 10

// connections limits the number of connections; one address, or one key, gets at most half. A request of HTTP/2 counts
// as a connection, too, since one connection carries many. Past the limit, it closes the oldest one without an admitted
// request: one that is idle, drips its header, or was refused and sends no body. Its request is not carried out.
type connections struct {
	most   int
	refuse func()  // called for each connection that is closed past the limit
	shares *shares // nil in tests
	// after which an idle connection is closed; 0 is never. net/http's own timer outlives a connection of HTTP/2 that
	// ends with open streams, and with it all of its requests.
	idleAfter time.Duration

	mu      sync.Mutex // guards all below
	open    map[io.Closer]*connection
	each    map[string]int // by address
	kept    map[string]int // by owner: those with an admitted request
	waiting queue.List     // those without an admitted request, oldest first
	refused int            // requests of HTTP/2 that are answered past the limit
	pending int            // bytes; see pendingBudget
}

// connection is a net.Conn, or the stream of a request of HTTP/2.
type connection struct {
	io.Closer
	address string
	owner   string         // of its admitted request, or ""
	waits   *queue.Element // nil while it is kept
	gone    chan struct{}  // closed once it does not count
	expiry  *time.Timer    // closes it if it stays idle; nil before it was idle

	http2    bool
	headRead bool // the head is complete
	pending  int  // bytes; see pendingBudget

	beside int           // bytes that came in a head, or in HTTP/2 beside bodies, and are not work yet
	last   int           // bytes of the latest read of a head of HTTP/1, which are not in beside yet
	answer int           // bytes that requests announced to send in HTTP/2, less those that were sent
	unpaid time.Duration // work
}

func newConnections(most int, refuse func()) *connections {
	return &connections{most: most, refuse: refuse, open: map[io.Closer]*connection{}, each: map[string]int{},
		kept: map[string]int{}}
}

// BoundConnections limits the connections of a server whose requests need no key. Past the limit, the oldest ones are
// closed.
func BoundConnections(server *http.Server, most int) {
	server.ConnState = newConnections(most, func() {}).state
}

// carrier is the context key of what carries a request.
type carrier struct{}

// carriers are the connection of a request, and its stream with HTTP/2.
type carriers struct {
	*connections
	each []io.Closer
}

// context is the ConnContext hook of http.Server.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, carrier{}, carriers{c, []io.Closer{conn}})
}

// admitted keeps what carries a request until the request is answered, or returns why the request must not be carried
// out: its handler would not be counted. Tests may have no connection.
func admitted(ctx context.Context, owner string) error {
	c, ok := ctx.Value(carrier{}).(carriers)
	if !ok {
		return nil
	}
	counted := false
	for _, each := range c.each {
		counted = c.admit(each, owner)
	}
	if !counted { // the last, a stream if there is one
		return errOverConnections
	}
	return nil
}

// gone are closed once the connection, and once the stream of a request do not count; nil is never. net/http keeps the
// queued requests of a closed connection of HTTP/2 until its started ones have ended.
type gone [2]<-chan struct{}

// goneOf returns when a request has nobody to wait for.
func goneOf(ctx context.Context) (g gone) {
	c, ok := ctx.Value(carrier{}).(carriers)
	if !ok {
		return g
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, each := range c.each {
		if known := c.open[each]; known != nil {
			g[i] = known.gone
		} else {
			g[i] = ended
		}
	}
	return g
}

// ended is closed.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

var errOverConnections = &sandbox.Error{Kind: sandbox.Busy, Msg: "too many requests at once",
	Fix: "wait for the end of others, or try again later"}

// stream is a request of HTTP/2. Close resets it.
type stream struct {
	mu      sync.Mutex // guards all below
	control *http.ResponseController
	ended   bool
}

func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	return s.control.SetWriteDeadline(time.Now().Add(-time.Second)) // resets it at once
}

// countHead counts the head of a request of HTTP/1 as work.
func countHead(w *Response, r *http.Request) {
	if c, ok := r.Context().Value(carrier{}).(carriers); ok {
		w.cost.add(c.endHead(c.each[0], bytesOf(r.Header)+len(r.RequestURI)))
	}
}

// beginStream counts a request of HTTP/2. Past the limit it returns an error, which is answered at once, or resets the
// request if too many others are refused, too. The caller calls end before its handler returns.
func beginStream(w *Response, r *http.Request) (counted *http.Request, end func(), err error) {
	c, ok := r.Context().Value(carrier{}).(carriers)
	if !ok {
		return r, func() {}, nil
	}
	s := &stream{control: w.control}
	head := max(bytesOf(r.Header)+len(r.RequestURI), usualHead)
	decoded := time.Duration(head-usualHead) * besideTime
	c.renew(c.each[0], head)
	w.cost.add(decoded)
	w.cost.sends = func(n int) { c.sends(c.each[0], n) }
	w.cost.headOnly = r.Method == http.MethodHead
	counted = r.WithContext(r.Context())
	if r.Body != http.NoBody {
		counted.Body = countedBody{r.Body, func(n int) { c.read(c.each[0], n) }}
	}
	if c.begin(s, addressOf(r.RemoteAddr)) {
		both := carriers{c.connections, []io.Closer{c.each[0], s}}
		counted = counted.WithContext(context.WithValue(r.Context(), carrier{}, both))
		return counted, func() { c.endStream(s) }, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused >= c.share() {
		if known := c.open[c.each[0]]; known != nil {
			known.unpaid += requestTime + decoded // the handler, which would count them, does not begin
		}
		panic(http.ErrAbortHandler)
	}
	c.refused++
	w.pace.timeout = min(w.pace.timeout, unreadTime)
	return counted, c.endRefused, errOverConnections
}

func (c *connections) endStream(s *stream) {
	c.end(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (c *connections) endRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused--
}

// admit keeps a connection for an owner's request, if less than half of all are kept for that owner: a key may be used
// from many addresses. It returns false if not.
func (c *connections) admit(conn io.Closer, owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	switch {
	case known == nil: // closed past the limit
		return false
	case known.waits == nil:
		return true
	case c.kept[owner] >= c.share():
		return false
	}
	c.waiting.Remove(known.waits)
	c.done(known, known.pending)
	known.waits, known.owner = nil, owner
	c.kept[owner]++
	return true
}

func (c *connections) share() int { return max(1, c.most/2) }

// state is the ConnState hook of http.Server. An active connection stays in waiting until admit, as any header without
// a key makes it active. One whose request was refused keeps its place there.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if tcp, ok := c.counted(conn).(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // optional
		}
		c.begin(conn, addressOf(conn.RemoteAddr().String()))
	case http.StateActive: // it waits until admit
		secure, ok := conn.(*tls.Conn)
		c.active(conn, ok && secure.ConnectionState().NegotiatedProtocol == "h2")
	case http.StateIdle:
		c.idle(conn)
	case http.StateHijacked:
		c.hijacked(conn)
	default:
		c.end(conn)
	}
}

// begin counts a connection, and closes another or this one past the limit. It returns false for this one.
func (c *connections) begin(conn io.Closer, address string) bool {
	c.mu.Lock()
	over := c.add(&connection{Closer: conn, address: address})
	c.mu.Unlock()
	if over != nil {
		c.refuse()
	}
	if _, answered := conn.(*stream); over != nil && !(answered && over == conn) {
		over.Close()
	}
	return over != conn
}

// active notes that a head is complete. With HTTP/2, frames may still have no answer.
func (c *connections) active(conn io.Closer, http2 bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		return
	}
	known.stay()
	if http2 && !known.http2 { // what came was of the handshake
		known.beside, known.last = 0, 0
	}
	if known.headRead, known.http2 = true, http2; !http2 {
		c.done(known, known.pending)
	}
}

// idle puts a connection whose requests are answered behind the others that wait.
func (c *connections) idle(conn io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		return
	}
	known.headRead = false
	switch {
	case c.idleAfter == 0:
	case known.expiry == nil:
		known.expiry = time.AfterFunc(c.idleAfter, func() { conn.Close() })
	default:
		known.expiry.Reset(c.idleAfter)
	}
	if known.waits == nil {
		c.drop(known)
		known.waits = c.waiting.PushBack(known)
	}
}

// stay ends the time after which an idle connection is closed.
func (k *connection) stay() {
	if k.expiry != nil {
		k.expiry.Stop()
	}
}

// renew puts a connection that waits behind the others: its older streams must give way before it. The bytes of the
// head, as it was decoded, are work of the request.
func (c *connections) renew(conn io.Closer, head int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		return
	}
	known.beside = max(0, known.beside-head)
	known.answer += answerHead
	if known.waits != nil {
		c.waiting.MoveToBack(known.waits)
	}
}

func (c *connections) end(conn io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		c.remove(known)
	}
}

// hijacked ends the count of a connection that its handler took over. The handler still waits for its client's share.
func (c *connections) hijacked(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		c.countRecords(conn, known.payer())
		known.gone = make(chan struct{}) // remove closes it; the channel that ends the handler's waits stays open
		c.remove(known)
	}
}

// add adds a connection and returns the one to close for it: none, another, or itself. The caller holds mu.
func (c *connections) add(entry *connection) (over io.Closer) {
	switch {
	case entry.address != "" && c.each[entry.address] >= c.share():
		over = c.oldest(entry.address)
	case len(c.open) >= c.most:
		over = c.oldest("")
	default:
		c.enter(entry)
		return nil
	}
	if over == nil {
		return entry.Closer
	}
	c.remove(c.open[over])
	c.enter(entry)
	return over
}

func (c *connections) enter(entry *connection) {
	c.open[entry.Closer] = entry
	c.each[entry.address]++
	entry.waits, entry.gone = c.waiting.PushBack(entry), make(chan struct{})
}

// oldest returns the connection that has waited longest, of an address if one is given. The caller holds mu.
func (c *connections) oldest(address string) io.Closer {
	for e := c.waiting.Front(); e != nil; e = e.Next() {
		if entry := e.Value.(*connection); address == "" || entry.address == address {
			return entry.Closer
		}
	}
	return nil
}

// drop ends the keeping of a connection for its owner.
func (c *connections) drop(entry *connection) {
	if c.kept[entry.owner]--; c.kept[entry.owner] == 0 {
		delete(c.kept, entry.owner)
	}
	entry.owner = ""
}

func (c *connections) remove(entry *connection) {
	c.leave(entry)
	c.done(entry, entry.pending)
	if entry.waits != nil {
		c.waiting.Remove(entry.waits)
	} else {
		c.drop(entry)
	}
	delete(c.open, entry.Closer)
	close(entry.gone)
	entry.stay()
	if c.each[entry.address]--; c.each[entry.address] == 0 {
		delete(c.each, entry.address)
	}
}

// addressOf identifies a client: its address without the port; of IPv6, the /64 network. All other clients, as on a
// Unix socket, are one: "".
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // 64 bits always fit
		return prefix.String()
	}
	return addr.String()
}
