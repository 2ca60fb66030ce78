package httpd

import (
	queue "container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// sendBuffer is the kernel's buffer for what a client has not taken yet. Left to itself it grows to megabytes for each connection,
// which are the kernel's memory, and go out in bursts of a third, so that a slow client seems to take nothing for long.
const sendBuffer = 256 << 10

// connections bounds how many there are, and how many of one address and of one key: half, so that one client cannot have all. When it is one
// too many, the oldest without an admitted request goes in its place: it is idle, drips its header, or was refused and sends no body. One whose
// request comes at that very moment goes as well: it may be carried out, and its client learns it as with any connection that breaks.
type connections struct {
	most   int
	refuse func() // is called for each connection that is closed for another or at once

	mu      sync.Mutex // guards all below
	open    map[net.Conn]*connection
	each    map[string]int // by address
	kept    map[string]int // by owner: those that no other takes the place of
	waiting queue.List     // of those without an admitted request, the oldest first
}

type connection struct {
	net.Conn
	address string
	owner   string         // of the request that it is kept for; "" is none
	waits   *queue.Element // nil while it is kept
}

func newConnections(most int, refuse func()) *connections {
	return &connections{most: most, refuse: refuse, open: map[net.Conn]*connection{}, each: map[string]int{}, kept: map[string]int{}}
}

// admission is the key of what a request's context holds for admitted.
type admission struct{}

// context is the hook of http.Server for what the requests of a connection know.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, admission{}, func(owner string) { c.admit(conn, owner) })
}

// admitted keeps the connection of a request until the request is answered. Without a connection, as in tests, there is nothing to keep.
func admitted(ctx context.Context, owner string) {
	if admit, ok := ctx.Value(admission{}).(func(string)); ok {
		admit(owner)
	}
}

// admit keeps a connection for an owner's request, as long as no more than half of all are kept for it: a key may come from any number of
// addresses.
func (c *connections) admit(conn net.Conn, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil || known.waits == nil || c.kept[owner] >= c.share() { // nil: it was closed for another
		return
	}
	c.waiting.Remove(known.waits)
	known.waits, known.owner = nil, owner
	c.kept[owner]++
}

func (c *connections) share() int { return max(1, c.most/2) }

// state is the hook of http.Server. An active connection stays in waiting until admit: whoever has no key gets that far with any header. One
// whose request was refused keeps its place there.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	var over net.Conn
	c.mu.Lock()
	switch known := c.open[conn]; {
	case state == http.StateNew:
		over = c.add(conn)
	case known == nil: // it was closed for another
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

// add enters a connection and returns the one to close for it: none, another, or itself. The caller holds mu.
func (c *connections) add(conn net.Conn) (over net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // without it all works as well
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

// oldest returns the connection that has waited longest, of an address where one is given. The caller holds mu.
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

// addressOf tells clients apart: the address, without the port; of IPv6 the 64 bits that one network has. All that is no such address,
// as on a Unix socket, is "": one client.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // 64 bits are never too many
		return prefix.String()
	}
	return addr.String()
}
