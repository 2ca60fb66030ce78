package httpd

import (
	queue "container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// sendBuffer is the size of the kernel's send buffer of a connection. By default it grows to megabytes of kernel memory
// and drains in bursts of a third, so that a slow client seems stalled.
const sendBuffer = 256 << 10

// connections limits the number of connections; one address, or one key, gets at most half. Past the limit, it closes
// the oldest connection without an admitted request: one that is idle, drips its header, or was refused and sends no
// body. A request that arrives at that moment may still be carried out; its client sees a broken connection.
type connections struct {
	most   int
	refuse func() // called for each connection that is closed past the limit

	mu      sync.Mutex // guards all below
	open    map[net.Conn]*connection
	each    map[string]int // by address
	kept    map[string]int // by owner: those with an admitted request
	waiting queue.List     // those without an admitted request, oldest first
}

type connection struct {
	net.Conn
	address string
	owner   string         // of its admitted request, or ""
	waits   *queue.Element // nil while it is kept
}

func newConnections(most int, refuse func()) *connections {
	return &connections{most: most, refuse: refuse, open: map[net.Conn]*connection{}, each: map[string]int{},
		kept: map[string]int{}}
}

// admission is the context key of a request's connection, for admitted.
type admission struct{}

// context is the ConnContext hook of http.Server.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, admission{}, func(owner string) { c.admit(conn, owner) })
}

// admitted keeps the connection of a request until the request is answered. Tests may have no connection.
func admitted(ctx context.Context, owner string) {
	if admit, ok := ctx.Value(admission{}).(func(string)); ok {
		admit(owner)
	}
}

// admit keeps a connection for an owner's request, if less than half of all are kept for that owner: a key may be used
// from many addresses.
func (c *connections) admit(conn net.Conn, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil || known.waits == nil || c.kept[owner] >= c.share() { // nil: closed past the limit
		return
	}
	c.waiting.Remove(known.waits)
	known.waits, known.owner = nil, owner
	c.kept[owner]++
}

func (c *connections) share() int { return max(1, c.most/2) }

// state is the ConnState hook of http.Server. An active connection stays in waiting until admit, as any header without
// a key makes it active. One whose request was refused keeps its place there.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	var over net.Conn
	c.mu.Lock()
	switch known := c.open[conn]; {
	case state == http.StateNew:
		over = c.add(conn)
	case known == nil: // closed past the limit
	case state == http.StateActive: // it waits until admit
	case state == http.StateIdle:
		if known.waits == nil {
			c.drop(known)
			known.waits = c.waiting.PushBack(known)
		}
	default:
		c.remove(known)
	}
	c.mu.Unlock()
	if over != nil {
		c.refuse()
		over.Close()
	}
}

// add adds a connection and returns the one to close for it: none, another, or itself. The caller holds mu.
func (c *connections) add(conn net.Conn) (over net.Conn) {
	plain := conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok { // of crypto/tls
		plain = secure.NetConn()
	}
	if tcp, ok := plain.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // optional
	}
	entry := &connection{Conn: conn, address: addressOf(conn.RemoteAddr().String())}
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
		return conn
	}
	c.remove(c.open[over])
	c.enter(entry)
	return over
}

func (c *connections) enter(entry *connection) {
	c.open[entry.Conn] = entry
	c.each[entry.address]++
	entry.waits = c.waiting.PushBack(entry)
}

// oldest returns the connection that has waited longest, of an address if one is given. The caller holds mu.
func (c *connections) oldest(address string) net.Conn {
	for e := c.waiting.Front(); e != nil; e = e.Next() {
		if entry := e.Value.(*connection); address == "" || entry.address == address {
			return entry.Conn
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
	if entry.waits != nil {
		c.waiting.Remove(entry.waits)
	} else {
		c.drop(entry)
	}
	delete(c.open, entry.Conn)
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
