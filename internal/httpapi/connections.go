package httpapi

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

// connections bounds how many there are, and how many of one address: half, so that one client cannot have all. When it is one
// too many, the oldest without an admitted request goes in its place: it is idle, drips its header, or was refused and sends no body. One whose
// request comes at that very moment goes as well: it may be carried out, and its client learns it as with any connection that breaks.
type connections struct {
	most   int
	refuse func() // is told of each connection that is closed for another or at once

	mu      sync.Mutex // guards all below
	open    map[net.Conn]*connection
	each    map[string]int // by address
	waiting queue.List     // of those without an admitted request, the oldest first
}

type connection struct {
	net.Conn
	address string
	waits   *queue.Element // nil while an admitted request is served
}

func newConnections(most int, refuse func()) *connections {
	return &connections{most: most, refuse: refuse, open: map[net.Conn]*connection{}, each: map[string]int{}}
}

// admission is the key of what a request's context holds for admitted.
type admission struct{}

// context is the hook of http.Server for what the requests of a connection know.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, admission{}, func() { c.admit(conn) })
}

// admitted keeps the connection of a request until the request is answered. Without a connection, as in tests, there is nothing to keep.
func admitted(ctx context.Context) {
	if admit, ok := ctx.Value(admission{}).(func()); ok {
		admit()
	}
}

func (c *connections) admit(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil { // it was not closed for another
		c.serve(known)
	}
}

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
	share := max(1, c.most/2)
	switch {
	case entry.address != "" && c.each[entry.address] >= share:
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

func (c *connections) serve(entry *connection) {
	if entry.waits != nil {
		c.waiting.Remove(entry.waits)
		entry.waits = nil
	}
}

func (c *connections) remove(entry *connection) {
	c.serve(entry)
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
