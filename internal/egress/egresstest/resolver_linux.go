package egresstest

import (
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// zone has the names that the host's resolver knows, and those that it was asked for.
type zone struct {
	mu    sync.Mutex
	names map[string][][]netip.Addr // answers by turns; the last one stays
	asked []string
}

// Name sets the addresses of a name. Several lists answer one query after the other.
func (w *World) Name(name string, answers ...string) {
	w.zone.mu.Lock()
	defer w.zone.mu.Unlock()
	w.zone.names[name] = nil
	for _, answer := range answers {
		var list []netip.Addr
		for _, a := range strings.Fields(answer) {
			list = append(list, netip.MustParseAddr(a))
		}
		w.zone.names[name] = append(w.zone.names[name], list)
	}
}

// Asked lists the names that the resolver was asked for since the last call.
func (w *World) Asked() []string {
	w.zone.mu.Lock()
	defer w.zone.mu.Unlock()
	list := w.zone.asked
	w.zone.asked = nil
	return list
}

// resolve serves names at the address that the host's resolver has.
func (w *World) resolve() {
	w.t.Helper()
	w.zone.names = map[string][][]netip.Addr{}
	w.cover("/etc/resolv.conf", []byte("nameserver "+Resolver+"\n"))
	var c net.PacketConn
	var err error
	w.do(func() { c, err = net.ListenPacket("udp4", Resolver+":53") })
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if reply := w.zone.answer(b[:n]); reply != nil {
				_, _ = c.WriteTo(reply, from)
			}
		}
	}()
}

func (z *zone) answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	z.asked = append(z.asked, name)
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q}}
	lists, known := z.names[name]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	if len(lists) > 0 {
		for _, a := range lists[0] {
			r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}}
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				r.Body = &dnsmessage.AResource{A: a.As4()}
			case !a.Is4() && q.Type == dnsmessage.TypeAAAA:
				r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
			default:
				continue
			}
			m.Answers = append(m.Answers, r)
		}
		if len(lists) > 1 && q.Type == dnsmessage.TypeA {
			z.names[name] = lists[1:]
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}
