package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

const (
	resolveTimeout = 5 * time.Second // of one question to the host's resolver
	// maxAnswer is the most bytes of its answer over TCP: some 500 addresses, for which package net takes 100 KiB.
	maxAnswer = 8 << 10
)

// answerCache keeps the last answers of the host's resolver, so that a sandbox does not ask for the same again. It is
// of one sandbox: a shared one would reveal what others ask for. The zero value is ready.
type answerCache struct {
	mu  sync.Mutex
	all map[query]cached
}

type query struct{ network, name string }

type cached struct {
	found   []netip.Addr
	missing bool // the name does not exist
	ends    time.Time
}

const (
	// cacheLife is how long an answer is used again. The host's resolver does not report the lifetime of a record, so
	// this is short: many records live for 30 seconds or more.
	cacheLife     = 10 * time.Second
	maxCached     = 128 // answers
	maxCachedSize = 64  // addresses of an answer that is kept
)

func (c *answerCache) get(q query, now time.Time) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.all[q]
	return a, ok && now.Before(a.ends)
}

// put keeps an answer. If there are too many, it removes those that have expired, else all.
func (c *answerCache) put(q query, a cached, now time.Time) {
	if len(a.found) > maxCachedSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[query]cached{}
	}
	if len(c.all) >= maxCached {
		for old, a := range c.all {
			if !now.Before(a.ends) {
				delete(c.all, old)
			}
		}
	}
	if len(c.all) >= maxCached {
		clear(c.all)
	}
	a.ends = now.Add(cacheLife)
	c.all[q] = a
}

var errMissing = &net.DNSError{Err: "no such host", IsNotFound: true}

// resolve returns the addresses of a canonical name, in "ip4" or "ip6". Each question to the host's resolver counts
// towards the rate of connections and the budget. The error is a rules.Refusal past them.
func (g *gate) resolve(network, name string) ([]netip.Addr, error) {
	q, now := query{network, name}, time.Now()
	if a, ok := g.answers.get(q, now); ok {
		if a.missing {
			return nil, errMissing
		}
		return a.found, nil
	}
	if reason := g.meter.ask(g.rules.Load().Bounds, now); reason != "" {
		return nil, rules.Refusal(reason)
	}
	defer g.meter.release(questionMemory)
	ctx, cancel := context.WithTimeout(g.ending.ctx, resolveTimeout)
	defer cancel()
	found, err := g.options.Resolve(ctx, network, name+".")
	g.meter.pace.spend(time.Duration(len(found)) * recordTime)
	missing := isMissing(err)
	if err == nil || missing {
		g.answers.put(q, cached{found: found, missing: missing}, now)
	}
	return found, err
}

// isMissing reports whether an error of a resolver means that the name does not exist.
func isMissing(err error) bool {
	var failed *net.DNSError
	return errors.As(err, &failed) && failed.IsNotFound
}

// dialResolver connects to the host's resolver. Only tests change it.
var dialResolver = (&net.Dialer{}).DialContext

// newResolver returns the host's resolver for one question, of which it reads no long answers. Package net asks again
// after a failure, and over TCP after an answer that is cut. All but the first question, which ask counts, count here.
func (g *gate) newResolver() *net.Resolver {
	var again atomic.Bool
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		release, reason := g.meter.askAgain(again.Swap(true), network, address, time.Now())
		if reason != "" {
			return nil, rules.Refusal(reason)
		}
		c, err := dialResolver(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			return &shortAnswer{Conn: tcp, release: release}, err
		}
		release()
		return c, err
	}}
}

// shortAnswer is a connection for one question. It fails at the end of maxAnswer bytes.
type shortAnswer struct {
	net.Conn
	read    int
	release func() // its port
}

var errLongAnswer = errors.New("a long answer of the host's resolver")

func (s *shortAnswer) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.read += n; s.read > maxAnswer {
		return 0, errLongAnswer
	}
	return n, err
}

func (s *shortAnswer) Close() error {
	s.release()
	return s.Conn.Close()
}

// resolveHost asks the host's resolver. Without a route for IPv6 it returns no IPv6 addresses.
func (g *gate) resolveHost(ctx context.Context, network, name string) ([]netip.Addr, error) {
	if network == "ip6" && !routes6() {
		return nil, nil
	}
	resolver := g.newResolver()
	found, err := resolver.LookupNetIP(ctx, network, name)
	if isMissing(err) {
		// The name exists if it has addresses of the other family.
		other := map[string]string{"ip4": "ip6", "ip6": "ip4"}[network]
		if _, gone := resolver.LookupNetIP(ctx, other, name); gone == nil {
			return nil, nil
		}
	}
	return found, err
}

// routes6 reports whether the host has a route to a public IPv6 address. Connecting a UDP socket sends nothing.
func routes6() bool {
	c, err := net.Dial("udp6", "[2001:4860:4860::8888]:53")
	if err != nil {
		return false
	}
	c.Close()
	return true
}
