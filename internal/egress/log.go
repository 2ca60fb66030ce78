package egress

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxAttempts   = 1000 // that a log keeps
	maxFollowed   = 50   // that Follow returns at once: a reader that is slow holds them
	maxHosts      = 256  // that a log counts by name; Other counts the rest
	maxMethods    = 16
	maxMethodSize = 16  // bytes of a method that an attempt keeps
	maxPath       = 256 // bytes of a path, likewise
)

type (
	Attempt = sandbox.NetworkAttempt
	Total   = sandbox.NetworkTotal
	Summary = sandbox.NetworkSummary
	Refusal = sandbox.NetworkRefusal
)

func addTo(t *Total, a *Attempt) {
	if a.Allowed {
		t.Allowed++
	} else {
		t.Refused++
	}
	if a.Protocol != sandbox.ProtocolHTTP && a.Protocol != sandbox.ProtocolHTTPS { // the connection counts its bytes
		t.Sent += a.Sent
		t.Received += a.Received
	}
}

// Log keeps the last attempts of a sandbox, and counts all. The zero value is ready. It implements the methods of
// sandbox.NetworkLog.
type Log struct {
	mu    sync.Mutex
	ring  []Attempt // grows up to maxAttempts; the attempt of Seq s is at (s-1-base) % maxAttempts
	base  uint64
	last  uint64
	sum   Summary
	news  news
	tally *tally // counts for all sandboxes; may be nil

	misplaced []noted // the latest last
}

// news is what followers of a log wait for.
type news struct {
	changed chan struct{} // closed by the next attempt or the end; nil while nobody waits
	ended   bool          // there are no further attempts
}

// add logs an attempt.
func (l *Log) add(a Attempt) {
	l.tally.add(&a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(a)
	l.wake()
}

// wake wakes those that wait in Follow. Callers hold mu.
func (l *Log) wake() {
	if l.news.changed != nil {
		close(l.news.changed)
		l.news.changed = nil
	}
}

// end lets Follow fail after the last attempt.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news.ended = true
	l.wake()
}

// put numbers, keeps and counts an attempt.
func (l *Log) put(a Attempt) {
	a.Seq = l.last + 1
	l.keep(a)
	count(&l.sum, &a)
}

// keep keeps a numbered attempt. After a gap only those that follow it are kept.
func (l *Log) keep(a Attempt) {
	if a.Seq != l.last+1 {
		l.skip(a.Seq - 1)
	}
	l.last = a.Seq
	if len(l.ring) < maxAttempts {
		l.ring = append(l.ring, a)
	} else {
		l.ring[(a.Seq-1-l.base)%maxAttempts] = a
	}
}

// skip continues the log after a Seq, without earlier attempts.
func (l *Log) skip(seq uint64) { l.ring, l.base, l.last = nil, seq, seq }

func count(s *Summary, a *Attempt) {
	if s.Hosts == nil {
		s.Protocols, s.Hosts, s.Methods, s.Statuses = map[string]Total{}, map[string]Total{}, map[string]uint64{},
			map[int]uint64{}
	}
	addTo(&s.NetworkTotal, a)
	p := s.Protocols[a.Protocol]
	addTo(&p, a)
	s.Protocols[a.Protocol] = p
	if host := a.Host(); host != "" {
		host = among(s.Hosts, host, maxHosts)
		t := s.Hosts[host]
		addTo(&t, a)
		s.Hosts[host] = t
	}
	if a.Method != "" {
		s.Methods[among(s.Methods, a.Method, maxMethods)]++
	}
	if a.Status != 0 {
		s.Statuses[a.Status]++ // of three digits
	}
}

// among returns the key itself, or Other once there are enough.
func among[V any](totals map[string]V, key string, most int) string {
	if _, known := totals[key]; known || len(totals) < most {
		return key
	}
	return sandbox.NetworkOther
}

func (l *Log) Last(n int) []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := l.last - min(l.last, uint64(max(n, 0)))
	return l.after(after, n)
}

// after returns up to n kept attempts that follow the one of this Seq.
func (l *Log) after(seq uint64, n int) []Attempt {
	oldest := l.last - uint64(len(l.ring))
	seq = max(seq, oldest)
	var list []Attempt
	for ; seq < l.last && len(list) < n; seq++ {
		list = append(list, l.ring[(seq-l.base)%maxAttempts])
	}
	return list
}

func (l *Log) Follow(ctx context.Context, seq uint64) ([]Attempt, error) {
	for {
		l.mu.Lock()
		list := l.after(seq, maxFollowed)
		if l.news.changed == nil {
			l.news.changed = make(chan struct{})
		}
		changed, ended := l.news.changed, l.news.ended
		l.mu.Unlock()
		switch {
		case len(list) > 0:
			return list, nil
		case ended:
			return nil, net.ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *Log) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *Log) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals()
}

func (l *Log) totals() Summary {
	s := l.sum
	s.Protocols, s.Hosts = maps.Clone(s.Protocols), maps.Clone(s.Hosts)
	s.Methods, s.Statuses = maps.Clone(s.Methods), maps.Clone(s.Statuses)
	return s
}

func (l *Log) Refusals(seq uint64, n int) []Refusal {
	l.mu.Lock()
	attempts := l.after(seq, maxAttempts)
	l.mu.Unlock()
	return destinations(attempts, n, func(a *Attempt, to string) (Refusal, bool) {
		return Refusal{Target: to, Reason: a.Reason, Allow: ruleFor(a)}, !a.Allowed
	})
}

func (l *Log) Failures(seq uint64, n int) []sandbox.NetworkFailure {
	l.mu.Lock()
	attempts := l.after(seq, maxAttempts)
	l.mu.Unlock()
	return destinations(attempts, n, func(a *Attempt, to string) (sandbox.NetworkFailure, bool) {
		return sandbox.NetworkFailure{Target: to, Reason: a.Reason}, a.Allowed && a.Reason != "" &&
			a.Reason != otherRecord && (a.Received == 0 || a.Protocol == sandbox.ProtocolDNS)
	})
}

const maxMisplaced = 64 // that a log keeps

// noted is a placeholder that was sent, and the last attempt before.
type noted struct {
	sandbox.NetworkMisplaced
	seq uint64
}

// misplace notes a placeholder that was sent, once for each place.
func (l *Log) misplace(m sandbox.NetworkMisplaced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.misplaced = slices.DeleteFunc(l.misplaced, func(o noted) bool { return o.NetworkMisplaced == m })
	l.misplaced = append(l.misplaced, noted{m, l.last})
	l.misplaced = l.misplaced[max(0, len(l.misplaced)-maxMisplaced):]
}

// Misplaced returns the placeholders that were sent since an attempt, at most n.
func (l *Log) Misplaced(seq uint64, n int) (list []sandbox.NetworkMisplaced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.misplaced {
		if m.seq >= seq && len(list) < n {
			list = append(list, m.NetworkMisplaced)
		}
	}
	return list
}

// destinations returns what of makes of the attempts that it selects: each destination once, at most n.
func destinations[T any](attempts []Attempt, n int, of func(a *Attempt, to string) (T, bool)) (list []T) {
	seen := map[string]bool{}
	for i := range attempts {
		to := target(&attempts[i])
		if to == "" || seen[to] || len(list) == n {
			continue
		}
		if one, ok := of(&attempts[i], to); ok {
			seen[to] = true
			list = append(list, one)
		}
	}
	return list
}

// ruleFor returns the rule that would let a refused attempt pass, "" if none would.
func ruleFor(a *Attempt) string {
	class, never := rules.Classify(a.Address)
	switch {
	case a.Reason == rules.NoRule && a.Name == rules.HostName && a.Port == 0:
		return rules.HostName + ":PORT"
	case a.Reason == rules.NoRule:
		return target(a)
	case !a.Address.IsValid() || class != "" && never:
		return ""
	case class == "":
		class = string(rules.RouteHost)
	}
	switch a.Reason {
	case rules.Is(class):
		return netip.AddrPortFrom(a.Address, a.Port).String()
	case rules.AddressIs(a.Address, class):
		return a.Address.String()
	}
	return ""
}

// target returns the text of a rule that would allow the attempt, "" if none can.
func target(a *Attempt) string {
	switch {
	case a.Protocol == sandbox.ProtocolIP:
		return ""
	case a.Port == 0:
		return a.Host()
	case a.Name != "":
		return a.Name + ":" + strconv.Itoa(int(a.Port))
	}
	return netip.AddrPortFrom(a.Address, a.Port).String()
}

// clip copies at most the first bytes of s.
func clip(s string, most int) string { return strings.Clone(s[:min(len(s), most)]) }
