package egress

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Refusal is a destination that the policy refused, for a hint.
type Refusal struct {
	Target string // as a rule would name it: "api.example.org", "api.example.org:443", "[2001:db8::1]:443"
	Reason string
	Fix    bool // a rule for Target in the allow list would let it pass
}

func (r Refusal) String() string {
	s := fmt.Sprintf("%s was refused by the network policy", r.Target)
	if r.Fix {
		return s + "; allow it with --allow " + r.Target
	}
	return s + ": " + r.Reason
}

// Refusals returns what was refused after the attempt of this Seq, each destination once, at most n, the oldest first.
func (l *Log) Refusals(seq uint64, n int) []Refusal {
	l.mu.Lock()
	attempts := l.after(seq, maxAttempts)
	l.mu.Unlock()
	var list []Refusal
	seen := map[string]bool{}
	for i := range attempts {
		a := &attempts[i]
		target := a.target()
		if a.Allowed || target == "" || seen[target] || len(list) == n {
			continue
		}
		seen[target] = true
		list = append(list, Refusal{Target: target, Reason: a.Reason, Fix: a.Reason == noRule})
	}
	return list
}

// target is what a rule for this attempt would say.
func (a *Attempt) target() string {
	switch {
	case a.Protocol == ProtocolIP:
		return ""
	case a.Port == 0:
		return a.Host()
	case a.Name != "":
		return a.Name + ":" + strconv.Itoa(int(a.Port))
	}
	return netip.AddrPortFrom(a.Address, a.Port).String()
}
