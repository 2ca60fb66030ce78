package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// FuzzQuery: every answer is well-formed, repeats the question, fits its bound, and gives away no address that may not
// be handed out.
func FuzzQuery(f *testing.F) {
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT, 65} {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 9, RecursionDesired: true})
		_ = b.StartQuestions()
		_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName("Site.example."), Type: kind,
			Class: dnsmessage.ClassINET})
		q, _ := b.Finish()
		f.Add(q)
	}
	g := &gate{Log: &Log{}, ending: ending{ctx: context.Background()}, meter: newMeter(newBudget(Limits{}), "", 1000)}
	g.options.Resolve = func(_ context.Context, network, _ string) ([]netip.Addr, error) {
		if network == "ip6" {
			return []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2606:4700::1")}, nil
		}
		return append([]netip.Addr{netip.MustParseAddr("10.0.0.1")}, many(200)...), nil
	}
	policy, err := rules.Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, ConnectionRate: 1e9})
	if err != nil {
		f.Fatal(err)
	}
	g.rules.Store(policy)
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
				if !policy.MayResolveTo("", netip.AddrFrom4(body.A), rules.RouteAway) {
					t.Fatalf("%v", body)
				}
			case *dnsmessage.AAAAResource:
				if !policy.MayResolveTo("", netip.AddrFrom16(body.AAAA), rules.RouteAway) {
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

// TestManyQuestions: a message with many questions is refused at the second one. Each takes 50 times its size as a
// value, and 64 messages may be read at once.
func TestManyQuestions(t *testing.T) {
	const count = 13_000
	query := []byte{0, 9, 1, 0, count >> 8, count & 0xff, 0, 0, 0, 0, 0, 0}
	query = append(query, bytes.Repeat([]byte{0, 0, 1, 0, 1}, count)...) // of the root
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readQuestion(query, 1<<16-1); err == nil {
		t.Error("it was taken")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(len(query)) {
		t.Errorf("%d bytes were allocated for %d", grown, len(query))
	}
}

// TestManyExtras: a query with many additional records takes as long as one with few, whatever their names are.
func TestManyExtras(t *testing.T) {
	name := strings.Repeat("a.", 127)
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 9})
	_ = b.StartQuestions()
	_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA,
		Class: dnsmessage.ClassINET})
	few, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	const count = 300
	record := []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0} // of the name of the question
	many := append(bytes.Clone(few), bytes.Repeat(record, count)...)
	binary.BigEndian.PutUint16(many[10:], count)
	took := func(query []byte) time.Duration {
		began := time.Now()
		for range 20 {
			if _, err := readQuestion(query, 1<<16-1); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	best := func(query []byte) time.Duration {
		least := took(query)
		for range 10 {
			least = min(least, took(query))
		}
		return least
	}
	if long, short := best(many), best(few); long > 10*short {
		t.Errorf("%s with %d records, %s without", long, count, short)
	}
}

// TestRoutesCost: each route that the kernel is asked for counts, also that behind NAT64.
func TestRoutesCost(t *testing.T) {
	g := &gate{meter: newMeter(newBudget(Limits{}), "", 1000)}
	policy, err := rules.Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	if err != nil {
		t.Fatal(err)
	}
	g.rules.Store(policy)
	for address, want := range map[string]time.Duration{"2606:4700::1": routeTime, "64:ff9b::909:909": 2 * routeTime} {
		before := g.meter.pace.credit.Load()
		g.handOut("site.example", "ip6", []netip.Addr{netip.MustParseAddr(address)}, &Attempt{})
		if got := time.Duration(before - g.meter.pace.credit.Load()); got != want {
			t.Errorf("%s: %s, not %s", address, got, want)
		}
	}
}
