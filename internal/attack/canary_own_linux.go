package attack

import (
	"net"
	"net/netip"
	"slices"
)

// listenOwn listens at this host's addresses outside of loopback and at the broadcast addresses of its networks. Only
// what the host sends itself counts, as a gate would: others of the network can reach these ports too.
func (c *Canaries) listenOwn() {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	var prefixes []netip.Prefix
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			prefixes = append(prefixes, p)
		}
	}
	isOwn := func(from net.Addr) bool {
		at, err := netip.ParseAddrPort(from.String())
		return err == nil && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
			return p.Addr() == at.Addr().Unmap()
		})
	}
	for _, p := range prefixes {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(p.Addr(), 0).String())
		if err != nil {
			continue
		}
		c.own = append(c.own, l.Addr().String())
		c.serveOwn(l, isOwn)
		at := l.Addr().(*net.TCPAddr).AddrPort().Port()
		c.listenDatagrams(netip.AddrPortFrom(p.Addr(), at), isOwn)
		if p.Bits() < 31 {
			c.listenDatagrams(netip.AddrPortFrom(broadcastOf(p), at), isOwn)
		}
	}
}

// broadcastOf returns the last address of a network.
func broadcastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for i := range a {
		a[i] |= byte(0xff >> min(max(p.Bits()-8*i, 0), 8))
	}
	return netip.AddrFrom4(a)
}

// serveOwn counts connections of this host.
func (c *Canaries) serveOwn(l net.Listener, isOwn func(net.Addr) bool) {
	c.closers = append(c.closers, l.Close)
	c.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if isOwn(conn.RemoteAddr()) {
				c.hit("a connection to %v", l.Addr())
			}
			conn.Close()
		}
	})
}

// listenDatagrams counts datagrams of this host, if it can listen there.
func (c *Canaries) listenDatagrams(at netip.AddrPort, isOwn func(net.Addr) bool) {
	u, err := net.ListenPacket("udp4", at.String())
	if err != nil {
		return
	}
	c.own = append(c.own, at.String())
	c.closers = append(c.closers, u.Close)
	c.serving.Go(func() {
		var buf [64]byte
		for {
			_, from, err := u.ReadFrom(buf[:])
			if err != nil {
				return
			}
			if isOwn(from) {
				c.hit("a datagram to %v", at)
			}
		}
	})
}
