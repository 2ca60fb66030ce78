package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Network is the network policy of a sandbox.
type Network struct {
	Mode           sandbox.NetworkMode `json:"mode" enum:"none,restricted,full"`
	Allow          []string            `json:"allow,omitempty" doc:"What may be reached."`
	Deny           []string            `json:"deny,omitempty" doc:"What may not be reached, whatever is allowed."`
	Inspect        []string            `json:"inspect,omitempty" doc:"Names whose HTTPS requests are read."`
	Secrets        []NetworkSecret     `json:"secrets,omitempty" doc:"What requests to some hosts are given, without their values."`
	MaxConnections int                 `json:"max_connections,omitempty" doc:"Connections at once."`
}

// NetworkSecret is a secret without its value.
type NetworkSecret struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
	Lost  bool     `json:"lost,omitempty" doc:"The value was lost when the server restarted. PATCH gives it again."`
}

// NewNetwork converts a network policy.
func NewNetwork(n sandbox.NetworkPolicy) Network {
	out := Network{Mode: cmp.Or(n.Mode, sandbox.NetworkNone), Allow: n.Allow, Deny: n.Deny, Inspect: n.Inspect, MaxConnections: n.MaxConnections}
	for _, s := range n.Secrets {
		out.Secrets = append(out.Secrets, NetworkSecret{s.Name, s.Hosts, s.Value == ""})
	}
	return out
}

// networkRefused words what the network policy refused.
func (f Face) networkRefused(h *sandbox.Hint) string {
	var parts []string
	for _, target := range h.Names {
		parts = append(parts, fmt.Sprintf("%s was refused by the network policy; %s.", target, f.reach(h, target)))
	}
	for _, target := range h.Others {
		where, reason, _ := strings.Cut(target, ": ")
		parts = append(parts, fmt.Sprintf("%s was refused by the network policy: %s.", where, reason))
	}
	return strings.Join(parts, " ")
}

// NetworkReport is what a sandbox tried to reach.
type NetworkReport struct {
	Policy   Network          `json:"policy"`
	Allowed  uint64           `json:"allowed" doc:"Attempts that were let through, since the sandbox or its server began."`
	Refused  uint64           `json:"refused"`
	Sent     int64            `json:"sent_bytes" doc:"From the sandbox."`
	Received int64            `json:"received_bytes"`
	Hosts    []NetworkHost    `json:"hosts" doc:"Totals by host, the most asked for first. The host other counts what no longer has its own."`
	Methods  []NetworkCount   `json:"methods" doc:"HTTP requests that could be read, by method."`
	Statuses []NetworkCount   `json:"statuses" doc:"HTTP answers that could be read, by status."`
	Attempts []NetworkAttempt `json:"attempts" doc:"The last ones, the oldest first."`
	Open     []NetworkAttempt `json:"open" doc:"Connections that are open now. They become attempts once they are over."`
}

// NetworkHost counts the attempts to reach one host.
type NetworkHost struct {
	Host     string `json:"host"`
	Allowed  uint64 `json:"allowed"`
	Refused  uint64 `json:"refused"`
	Sent     int64  `json:"sent_bytes"`
	Received int64  `json:"received_bytes"`
}

// NetworkCount is a number of something.
type NetworkCount struct {
	Of    string `json:"of"`
	Count uint64 `json:"count"`
}

// NetworkAttempt is one attempt to reach something.
type NetworkAttempt struct {
	ID       uint64  `json:"id" doc:"Counts from 1; what lies between two that follow each other is no longer kept."`
	Time     string  `json:"time" doc:"RFC 3339, when it began."`
	TookMS   float64 `json:"took_ms"`
	Protocol string  `json:"protocol" enum:"tcp,udp,dns,http,https,ip"`
	Name     string  `json:"name,omitempty"`
	Address  string  `json:"address,omitempty"`
	Port     uint16  `json:"port,omitempty"`
	Allowed  bool    `json:"allowed"`
	Rule     string  `json:"rule,omitempty" doc:"What decided: a rule of the policy, or its mode."`
	Reason   string  `json:"reason,omitempty" doc:"Why it was refused, or how it failed."`
	Sent     int64   `json:"sent_bytes,omitempty"`
	Received int64   `json:"received_bytes,omitempty"`
	Method   string  `json:"method,omitempty"`
	Path     string  `json:"path,omitempty"`
	Status   int     `json:"status,omitempty"`

	Secrets   []string `json:"secrets,omitempty" doc:"Secrets whose values were put into the request."`
	Misplaced []string `json:"misplaced,omitempty" doc:"Secrets whose placeholders were sent to a host that they are not for."`
}

// NewNetworkAttempt converts an attempt.
func NewNetworkAttempt(a sandbox.NetworkAttempt) NetworkAttempt {
	out := NetworkAttempt{ID: a.Seq, Time: a.Time.UTC().Format(time.RFC3339Nano), TookMS: Millis(a.Duration), Protocol: a.Protocol, Name: a.Name,
		Port: a.Port, Allowed: a.Allowed, Rule: a.Rule, Reason: a.Reason, Sent: a.Sent, Received: a.Received, Method: a.Method, Path: a.Path,
		Status: a.Status, Secrets: a.Secrets, Misplaced: a.Misplaced}
	if a.Address.IsValid() {
		out.Address = a.Address.String()
	}
	return out
}

// NewNetworkReport reports a policy, what it let through and what it refused.
func NewNetworkReport(p sandbox.NetworkPolicy, s sandbox.NetworkSummary, last, open []sandbox.NetworkAttempt) *NetworkReport {
	out := &NetworkReport{Policy: NewNetwork(p), Allowed: s.Allowed, Refused: s.Refused, Sent: s.Sent, Received: s.Received,
		Hosts: []NetworkHost{}, Methods: []NetworkCount{}, Statuses: []NetworkCount{}, Attempts: []NetworkAttempt{}, Open: []NetworkAttempt{}}
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		t := s.Hosts[host]
		out.Hosts = append(out.Hosts, NetworkHost{host, t.Allowed, t.Refused, t.Sent, t.Received})
	}
	slices.SortStableFunc(out.Hosts, func(a, b NetworkHost) int { return cmp.Compare(b.Allowed+b.Refused, a.Allowed+a.Refused) })
	for _, method := range slices.Sorted(maps.Keys(s.Methods)) {
		out.Methods = append(out.Methods, NetworkCount{method, s.Methods[method]})
	}
	for _, status := range slices.Sorted(maps.Keys(s.Statuses)) {
		out.Statuses = append(out.Statuses, NetworkCount{strconv.Itoa(status), s.Statuses[status]})
	}
	for _, a := range last {
		out.Attempts = append(out.Attempts, NewNetworkAttempt(a))
	}
	for _, a := range open {
		out.Open = append(out.Open, NewNetworkAttempt(a))
	}
	return out
}
