package egress

import (
	"net/netip"
	"strconv"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Refusals returns what was refused after the attempt of this Seq, each destination once, at most n, the oldest first.
func (l *Log) Refusals(seq uint64, n int) []Refusal {
	l.mu.Lock()
	attempts := l.after(seq, maxAttempts)
	l.mu.Unlock()
	var list []Refusal
	seen := map[string]bool{}
	for i := range attempts {
		a := &attempts[i]
		to := target(a)
		if a.Allowed || to == "" || seen[to] || len(list) == n {
			continue
		}
		seen[to] = true
		list = append(list, Refusal{Target: to, Reason: a.Reason, Fix: a.Reason == noRule})
	}
	return list
}

// target is what a rule for this attempt would say.
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
