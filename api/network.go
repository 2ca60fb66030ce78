package api

import (
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
