package api

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Network is the network policy of a sandbox.
type Network struct {
	// none: only a loopback interface; restricted: the targets in allow; full: the internet, but never this host,
	// private or metadata addresses unless allow lists them. The default is restricted if allow or secrets is not
	// empty, else none.
	Mode sandbox.NetworkMode `json:"mode"`
	// Names, *. and a name, addresses or prefixes, each with an optional :port or :from-to. Empty allows nothing.
	Allow []string `json:"allow,omitempty" max:"1000" example:"api.example.org:443"`
	Deny  []string `json:"deny,omitempty" max:"1000"` // Of the same form; deny overrides allow.
	// Names, as in allow, whose HTTPS requests are read and logged: the gate ends their TLS, with an authority that
	// only this sandbox trusts.
	Inspect []string `json:"inspect,omitempty" max:"1000"`
	// Values for headers of HTTPS requests to some hosts. The code sees only placeholders.
	Secrets []Secret `json:"secrets,omitempty" max:"64"`
	// Concurrent connections. The default is 256. The server refuses more than its maximum.
	MaxConnections *int `json:"max_connections,omitempty" over:"0"`
}

// Secret is a value that requests carry and the code never sees.
type Secret struct {
	// The environment variable that holds the placeholder.
	Name string `json:"name" required:"true" example:"GITHUB_TOKEN"`
	// Names, as in allow, to which they are added. The default port is 443.
	Hosts []string `json:"hosts" required:"true" example:"api.github.com"`
	// The headers that may carry the value; others keep the placeholder. The default is Authorization and usual headers
	// of API keys, such as X-Api-Key.
	Headers []string `json:"headers,omitempty" max:"16" example:"X-Api-Key"`
	// Further places that may carry the value, in requests to these hosts: body (JSON and forms of up to 1 MiB), query
	// and path.
	Places []sandbox.SecretPlace `json:"places,omitempty" max:"3"`
	// From 8 to 8192 characters. In a PATCH that adds no hosts or headers, the default is the value that the sandbox
	// has; give the values of all secrets, or of none. Never in an answer.
	Value string `json:"value,omitempty"`
	// In an answer: the value was lost when the server restarted, and PATCH can restore it. Ignored in a request.
	Lost bool `json:"lost,omitempty"`
}

// NetworkReport reports the attempts of a sandbox to reach hosts.
type NetworkReport struct {
	Policy   Network `json:"policy"`
	Allowed  uint64  `json:"allowed"` // Allowed attempts since the start of the sandbox.
	Refused  uint64  `json:"refused"`
	Sent     int64   `json:"sent_bytes"` // Bytes from the sandbox.
	Received int64   `json:"received_bytes"`
	// Totals by host, the most attempts first. Hosts without their own total count as other.
	Hosts    []NetworkHost    `json:"hosts"`
	Methods  []NetworkCount   `json:"methods"`  // Inspected HTTP requests, by method.
	Statuses []NetworkCount   `json:"statuses"` // Inspected HTTP answers, by status.
	Attempts []NetworkAttempt `json:"attempts"` // The last attempts, the oldest first.
	Open     []NetworkAttempt `json:"open"`     // Open connections. They become attempts when they close.
}

// NetworkHost counts the attempts to reach one host.
type NetworkHost struct {
	Host     string `json:"host"`
	Allowed  uint64 `json:"allowed"`
	Refused  uint64 `json:"refused"`
	Sent     int64  `json:"sent_bytes"`
	Received int64  `json:"received_bytes"`
}

// NetworkCount is the number of requests with one method, or of answers with one status.
type NetworkCount struct {
	Of    string `json:"of"`
	Count uint64 `json:"count"`
}

// NetworkAttempt is one attempt to reach a host.
type NetworkAttempt struct {
	ID       uint64    `json:"id"`   // Counts from 1. Attempts in a gap between two ids are no longer kept.
	Time     time.Time `json:"time"` // When it began.
	TookMS   float64   `json:"took_ms"`
	Protocol string    `json:"protocol" enum:"tcp,udp,dns,http,https,ip"`
	Name     string    `json:"name,omitempty"`
	Address  string    `json:"address,omitempty"`
	Port     uint16    `json:"port,omitempty"`
	Allowed  bool      `json:"allowed"`
	Rule     string    `json:"rule,omitempty"`   // The rule of the policy that decided, or its mode.
	Reason   string    `json:"reason,omitempty"` // Why it was refused, or how it failed.
	Sent     int64     `json:"sent_bytes,omitempty"`
	Received int64     `json:"received_bytes,omitempty"`
	Method   string    `json:"method,omitempty"`
	Path     string    `json:"path,omitempty"`
	Status   int       `json:"status,omitempty"`

	Secrets   []string `json:"secrets,omitempty"`   // Secrets whose values were put into the request.
	Misplaced []string `json:"misplaced,omitempty"` // Secrets whose placeholders were sent to a wrong host.
}
