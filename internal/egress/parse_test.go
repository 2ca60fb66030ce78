package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// clientHello is what a real client sends first.
func clientHello(t testing.TB, server string) []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: server, InsecureSkipVerify: true}).Handshake()
		theirs.Close()
	}()
	b := make([]byte, 1<<16)
	n, err := ours.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// split spreads a handshake message over records of so many bytes.
func split(record []byte, size int) (all []byte) {
	for body := record[5:]; len(body) > 0; {
		n := min(size, len(body))
		all = append(append(all, tlsHandshake, 3, 1, byte(n>>8), byte(n)), body[:n]...)
		body = body[n:]
	}
	return all
}

// FuzzHello: a hello says the same in however many records it comes, and none of its beginnings says anything.
func FuzzHello(f *testing.F) {
	whole := clientHello(f, "site.example")
	f.Add(whole, 100)
	f.Add(clientHello(f, "a.b"), 1)
	f.Add([]byte{22, 3, 1, 0, 1, 1}, 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		h, err := parseHello(b)
		if err != nil || size < 1 || len(b) != 5+int(b[3])<<8+int(b[4]) || len(b) > 2000 {
			return
		}
		again, err := parseHello(split(b, size))
		if err != nil || again != h {
			t.Fatalf("%+v in one record, %+v, %v in records of %d", h, again, err, size)
		}
		message := 9 + int(b[6])<<16 + int(b[7])<<8 + int(b[8])
		for n := range message {
			if _, err := parseHello(b[:n]); !errors.Is(err, errMore) {
				t.Fatalf("%d of %d bytes: %v", n, message, err)
			}
		}
	})
}

// FuzzRequests compares with the standard library: what passes, it reads as the same requests, with the same hosts and bodies; and in
// however many pieces the bytes come, the same passes.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.b\r\n\r\nGET /x HTTP/1.1\r\nHost: c.d\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a.b\r\nContent-Length: 5\r\n\r\nhelloGET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\n",
		"PUT /x HTTP/1.1\r\nHost: a.b:80\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n\r\nHEAD * HTTP/1.0\r\nHost: a\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.b\r\n\r\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		passed, hosts := follow(b, len(b)+1)
		if step > 0 {
			if again, _ := follow(b, step); !bytes.Equal(again, passed) {
				t.Fatalf("in one piece %q passes, by %d %q", passed, step, again)
			}
		}
		r := bufio.NewReader(bytes.NewReader(bytes.TrimLeft(passed, "\r\n")))
		for _, host := range hosts {
			for { // the empty lines between requests
				if c, err := r.Peek(1); err != nil || c[0] != '\r' && c[0] != '\n' {
					break
				}
				_, _ = r.ReadByte()
			}
			q, err := http.ReadRequest(r)
			if err != nil {
				return // the library is stricter about targets and values; a body cut short ends all
			}
			if name, err := hostName(q.Host); err == nil && name != host {
				t.Fatalf("%q asks %q, and was taken for %q", passed, name, host)
			}
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				return
			}
		}
		if rest, _ := io.ReadAll(r); bytes.Contains(rest, []byte("HTTP/1")) && len(hosts) > 0 {
			t.Fatalf("%q holds more requests than %q", passed, hosts)
		}
	})
}

// follow feeds bytes by pieces, and returns what may pass, and the hosts of the requests in it.
func follow(b []byte, step int) (passed []byte, hosts []string) {
	f := framer{over: func() {}}
	f.ends = func(head []byte) (body, error) {
		q, err := parseRequest(head)
		if err != nil {
			return body{}, err
		}
		name, err := hostName(q.host)
		if err != nil {
			return body{}, err
		}
		hosts = append(hosts, name)
		return q.body, nil
	}
	for len(b) > 0 {
		n := min(step, len(b))
		held, ok, err := f.feed(b[:n])
		passed = append(append(passed, held...), b[:ok]...)
		if err != nil {
			return passed, hosts
		}
		b = b[n:]
	}
	return passed, hosts
}

// FuzzFrame: what passes is TCP or UDP from the sandbox's address, or for the gate itself.
func FuzzFrame(f *testing.F) {
	four := make([]byte, 14+20+8)
	four[12] = 8
	header.IPv4(four[14:]).Encode(&header.IPv4Fields{TotalLength: 28, TTL: 64, Protocol: 17,
		SrcAddr: tcpip.AddrFromSlice(sandbox.LinkAddress4.Addr().AsSlice()),
		DstAddr: tcpip.AddrFromSlice(netip.MustParseAddr("9.9.9.9").AsSlice())})
	six := make([]byte, 14+40+24)
	six[12], six[13] = 0x86, 0xdd
	header.IPv6(six[14:]).Encode(&header.IPv6Fields{PayloadLength: 24, TransportProtocol: 58, HopLimit: 255,
		SrcAddr: tcpip.AddrFromSlice(sandbox.LinkAddress6.Addr().AsSlice()), DstAddr: tcpip.AddrFromSlice(sandbox.LinkGateway6.AsSlice())})
	six[14+40] = 135
	f.Add(four)
	f.Add(six)
	f.Add(append(make([]byte, 12), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := examine(b)
		if got.pass && got.refused || got.refused && (got.reason == "" || !got.to.IsValid()) {
			t.Fatalf("%+v", got)
		}
		if !got.pass || got.protocol == header.ARPProtocolNumber {
			return
		}
		packet := b[14:]
		from, to, next := packet[12:16], got.to, packet[9]
		own := sandbox.LinkAddress4.Addr()
		if got.protocol == header.IPv6ProtocolNumber {
			from, next, own = packet[8:24], packet[6], sandbox.LinkAddress6.Addr()
		}
		if a, _ := netip.AddrFromSlice(from); a != own && !(next == 58 && a.IsLinkLocalUnicast()) {
			t.Fatalf("from %s", a)
		}
		switch next {
		case 6, 17, 44:
		case 1, 58:
			if !isGateway(to) && packet[40] != 135 {
				t.Fatalf("ICMP to %s", to)
			}
		default:
			t.Fatalf("protocol %d", next)
		}
	})
}

// FuzzQuery: every answer is well-formed, repeats the question, fits its bound, and gives away no address that may not be handed out.
func FuzzQuery(f *testing.F) {
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT, 65} {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 9, RecursionDesired: true})
		_ = b.StartQuestions()
		_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName("Site.example."), Type: kind, Class: dnsmessage.ClassINET})
		q, _ := b.Finish()
		f.Add(q)
	}
	g := &Gate{log: &Log{}, ctx: context.Background()}
	g.host.list = func() ([]net.Addr, error) { return nil, nil }
	g.resolve = func(_ context.Context, network, _ string) ([]netip.Addr, error) {
		if network == "ip6" {
			return []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2606:4700::1")}, nil
		}
		return append([]netip.Addr{netip.MustParseAddr("10.0.0.1")}, many(200)...), nil
	}
	rules, err := Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	if err != nil {
		f.Fatal(err)
	}
	g.rules.Store(rules)
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := g.answer(query, maxUDP)
		if reply == nil {
			return
		}
		var m, q dnsmessage.Message
		if err := m.Unpack(reply); err != nil || len(reply) > maxUDP || !m.Response || len(m.Questions) != 1 {
			t.Fatalf("%x: %v", reply, err)
		}
		if q.Unpack(query) == nil && (q.ID != m.ID || q.Questions[0] != m.Questions[0]) {
			t.Fatalf("%v answers %v", m, q)
		}
		for _, a := range m.Answers {
			switch body := a.Body.(type) {
			case *dnsmessage.AResource:
				if !rules.handsOut(netip.AddrFrom4(body.A), false) {
					t.Fatalf("%v", body)
				}
			case *dnsmessage.AAAAResource:
				if !rules.handsOut(netip.AddrFrom16(body.AAAA), false) {
					t.Fatalf("%v", body)
				}
			default:
				t.Fatalf("%T", body)
			}
		}
	})
}

func many(n int) (list []netip.Addr) {
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}))
	}
	return list
}

// TestPins: addresses and names are forgotten in the order in which they were handed out, and with time.
func TestPins(t *testing.T) {
	var p pins
	now := time.Now()
	first := netip.MustParseAddr("9.9.9.9")
	p.add(first, "first.example", now)
	for i := range maxPins - 1 {
		p.add(netip.AddrFrom4([4]byte{8, 0, byte(i >> 8), byte(i)}), "other.example", now)
	}
	p.add(first, "again.example", now.Add(time.Minute))
	p.add(netip.MustParseAddr("7.7.7.7"), "one.more", now)
	if got := p.names(first, now.Add(pinLife)); len(got) != 2 || got[0] != "again.example" {
		t.Errorf("%q", got)
	}
	if got := p.names(first, now.Add(pinLife+time.Second)); len(got) != 1 {
		t.Errorf("after an hour: %q", got)
	}
	if got := p.names(netip.MustParseAddr("8.0.0.0"), now); got != nil || len(p.by) != maxPins || p.recent.Len() != maxPins {
		t.Errorf("%q of %d", got, len(p.by))
	}
	for i := range maxPinNames {
		p.add(first, string(rune('a'+i)), now)
	}
	if got := p.names(first, now); len(got) != maxPinNames || got[maxPinNames-1] != "a" {
		t.Errorf("%q", got)
	}
}
