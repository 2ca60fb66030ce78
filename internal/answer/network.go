package answer

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// NewNetwork converts a network policy.
func NewNetwork(n sandbox.NetworkPolicy) api.Network {
	out := api.Network{Mode: cmp.Or(n.Mode, sandbox.NetworkNone), Allow: n.Allow, Deny: n.Deny, Inspect: n.Inspect}
	if n.MaxConnections > 0 {
		out.MaxConnections = &n.MaxConnections
	}
	for _, s := range n.Secrets {
		out.Secrets = append(out.Secrets, api.Secret{Name: s.Name, Hosts: s.Hosts, Headers: s.Headers,
			Places: s.Places, Lost: s.Value == ""})
	}
	return out
}

// NetworkRequest converts a network policy with the values of its secrets.
func NetworkRequest(n sandbox.NetworkPolicy) api.Network {
	out := NewNetwork(n)
	for i, s := range n.Secrets {
		out.Secrets[i].Value = s.Value
	}
	return out
}

// NewNetworkAttempt converts an attempt.
func NewNetworkAttempt(a sandbox.NetworkAttempt) api.NetworkAttempt {
	out := api.NetworkAttempt{ID: a.Seq, Time: a.Time.UTC(), TookMS: Millis(a.Duration), Protocol: a.Protocol,
		Name: a.Name, Port: a.Port, Allowed: a.Allowed, Rule: a.Rule, Reason: a.Reason, Sent: a.Sent,
		Received: a.Received, Method: a.Method, Path: a.Path, Status: a.Status, Secrets: a.Secrets,
		Misplaced: a.Misplaced}
	if a.Address.IsValid() {
		out.Address = a.Address.String()
	}
	return out
}

// NewNetworkReport reports a policy, and the attempts that it allowed and refused.
func NewNetworkReport(
	p sandbox.NetworkPolicy, s sandbox.NetworkSummary, last, open []sandbox.NetworkAttempt,
) *api.NetworkReport {
	out := &api.NetworkReport{Policy: NewNetwork(p), Allowed: s.Allowed, Refused: s.Refused, Sent: s.Sent,
		Received: s.Received, Hosts: []api.NetworkHost{}, Methods: []api.NetworkCount{},
		Statuses: []api.NetworkCount{}, Attempts: []api.NetworkAttempt{}, Open: []api.NetworkAttempt{}}
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		t := s.Hosts[host]
		out.Hosts = append(out.Hosts, api.NetworkHost{Host: host, Allowed: t.Allowed, Refused: t.Refused,
			Sent: t.Sent, Received: t.Received})
	}
	slices.SortStableFunc(out.Hosts, func(a, b api.NetworkHost) int {
		return cmp.Compare(b.Allowed+b.Refused, a.Allowed+a.Refused)
	})
	for _, method := range slices.Sorted(maps.Keys(s.Methods)) {
		out.Methods = append(out.Methods, api.NetworkCount{Of: method, Count: s.Methods[method]})
	}
	for _, status := range slices.Sorted(maps.Keys(s.Statuses)) {
		out.Statuses = append(out.Statuses, api.NetworkCount{Of: strconv.Itoa(status), Count: s.Statuses[status]})
	}
	for _, a := range last {
		out.Attempts = append(out.Attempts, NewNetworkAttempt(a))
	}
	for _, a := range open {
		out.Open = append(out.Open, NewNetworkAttempt(a))
	}
	return out
}
