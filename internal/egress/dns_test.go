package egress

import (
	"bytes"
	"context"
	"net/netip"
	"runtime"
	"testing"

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
