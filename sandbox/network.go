package sandbox

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"time"
)

// NetworkMode is the reach of a sandbox's network.
type NetworkMode string

// The network modes. The zero value means NetworkNone.
const (
	NetworkNone       NetworkMode = "none"       // loopback only
	NetworkRestricted NetworkMode = "restricted" // the destinations in Allow
	NetworkFull       NetworkMode = "full"       // the internet, never the host or private ranges unless listed
)

// NetworkPolicy is what a sandbox may reach. A rule is a name, "*." and a name, an address or a prefix, each with an
// optional ":port" or ":from-to". What Deny lists is refused whatever Allow says.
type NetworkPolicy struct {
	Mode    NetworkMode
	Allow   []string
	Deny    []string
	Inspect []string // names, as in Allow, whose HTTPS requests the gate reads; port 443 unless a rule gives others
	Secrets []Secret

	// Trusted lists names, as in Allow, that may have private or reserved addresses, also one of this host. Loopback,
	// link-local and metadata addresses stay refused. It does not allow the names. Only Fumehood's own sandboxes have
	// it, for hosts that the operator names.
	Trusted []string

	// ReadOnly refuses requests to hosts of secrets and of Inspect that are not GET or HEAD. Only Fumehood's own
	// sandboxes have it, with passwords that the operator names.
	ReadOnly bool

	// Authority is what the sandbox trusts for what the gate reads. A Gate completes a policy with it.
	Authority *Authority

	// Former has earlier values and hosts of Secrets, after changes of the policy. The gate hides these values in all
	// answers of these hosts too. The engine sets it, and keeps it in memory only.
	Former []Secret `json:"-"`

	// Ceiling bounds what the rules open; nil is no bound. The engine sets it.
	Ceiling *NetworkCeiling

	MaxConnections int   // at once; 0 is DefaultConnections
	ConnectionRate int   // new connections a second; 0 is DefaultConnectionRate
	MaxSent        int64 // bytes that leave, over the life of the sandbox; 0 is no limit
	MaxReceived    int64 // bytes that come in; 0 is no limit
}

// Wanted returns the mode. The default is restricted if Allow or Secrets list anything.
func (p NetworkPolicy) Wanted() NetworkMode {
	if p.Mode == "" && len(p.Allow)+len(p.Secrets) > 0 {
		return NetworkRestricted
	}
	return p.Mode
}

// NetworkCeiling is the most that an operator lets network policies open, whatever they list.
type NetworkCeiling struct {
	Mode NetworkMode // the highest mode of a policy
	// Allow has rules as in NetworkPolicy.Allow. Each rule of a policy must lie within one of them, or within
	// NetworkPublic. Mode full requires NetworkPublic.
	Allow []string

	OfKey       bool // it is that of an API key, not of the whole server
	DefaultMode bool // nobody named Mode: it is the default for Allow
}

// HighestMode is the default of Mode.
func (c *NetworkCeiling) HighestMode() NetworkMode {
	if slices.Contains(c.Allow, NetworkPublic) {
		return NetworkFull
	}
	return NetworkRestricted
}

// For returns the ceiling of an API key, which may set only a part: the rest is that of the server.
func (c *NetworkCeiling) For(key NetworkCeiling) *NetworkCeiling {
	if key.Allow == nil {
		key.Allow = c.Allow
	}
	if key.Mode == "" && !c.DefaultMode {
		key.Mode = c.Mode
	}
	if most := key.HighestMode(); key.Mode == "" || key.Mode == NetworkFull {
		key.Mode = most
	}
	return &key
}

// NetworkPublic in a NetworkCeiling stands for all names and all public addresses. It does not open addresses that are
// private, link-local, reserved, of a metadata service or of the host.
const NetworkPublic = "public"

// DefaultNetworkCeiling is the ceiling of servers whose operator names none.
var DefaultNetworkCeiling = NetworkCeiling{Mode: NetworkFull, Allow: []string{NetworkPublic}}

// Bounds of a network where its policy names none.
const (
	DefaultConnections    = 256
	DefaultConnectionRate = 200 // a second
)

// MaxConnections is the most concurrent connections of a policy: a sandbox's address has no more ports.
const MaxConnections = 65535

// MaxNetworkRules is the most rules of a network in all its lists together, with the hosts of secrets.
const MaxNetworkRules = 1000

// CheckRules refuses more rules than MaxNetworkRules.
func CheckRules(n int) error {
	if n <= MaxNetworkRules {
		return nil
	}
	return Invalidf("network", "%d rules are more than %d", n, MaxNetworkRules)
}

// CheckConnections refuses a number of concurrent connections outside 1 to MaxConnections.
func CheckConnections(n int) error {
	if n < 1 || n > MaxConnections {
		return Invalidf("network.max_connections", "must be from 1 to %d", MaxConnections)
	}
	return nil
}

// Secret is a value that the code uses and never has. In its place it has a random placeholder, in the environment
// variable Name. The gate puts the value into Headers of HTTPS requests to Hosts, which are thereby allowed. Elsewhere
// the placeholder is sent unchanged. No answer of these hosts repeats the value.
type Secret struct {
	Name        string        // as the shell accepts it
	Hosts       []string      // names, as in Allow; port 443 unless a rule gives others
	Places      []SecretPlace // further places that may carry the value; headers always may
	Headers     []string      // that may carry the value, at most 16; empty: Authorization and usual ones of API keys
	Value       string        `json:"-"` // only kept in memory; "" after a restart of the server
	Placeholder string        // a Gate completes a policy with it
}

// SecretPlace is a part of a request.
type SecretPlace string

// The parts of a request besides its headers. A value may be put into bodies that are JSON or forms.
const (
	InBody  SecretPlace = "body"
	InQuery SecretPlace = "query"
	InPath  SecretPlace = "path"
)

// NetworkMisplaced is a placeholder that was sent to a host, and that no value replaced.
type NetworkMisplaced struct {
	Secret string          `json:"secret"`
	Host   string          `json:"host"`
	Place  SecretPlace     `json:"place"`
	Reason MisplacedReason `json:"reason"`
}

// MisplacedReason is why a placeholder was not replaced.
type MisplacedReason string

// The reasons.
const (
	MisplacedHost    MisplacedReason = "host"    // the secret is for other hosts
	MisplacedPlace   MisplacedReason = "place"   // the secret does not permit this part of a request
	MisplacedContent MisplacedReason = "content" // the body is no JSON or form, or too large
)

// String keeps the value out of logs.
func (s Secret) String() string { return "secret " + s.Name }

// GoString does so for %#v.
func (s Secret) GoString() string { return s.String() }

// Authority is the certificate authority of one sandbox. Nobody but that sandbox trusts it.
type Authority struct {
	Certificate []byte // PEM
	Key         []byte // PEM of PKCS #8
}

// Reads reports whether the gate ends the TLS of some connections.
func (p NetworkPolicy) Reads() bool { return len(p.Inspect)+len(p.Secrets) > 0 }

// TrustPath is the file of the certificates that programs in a sandbox trust, where the gate ends TLS.
const TrustPath = "/etc/fumehood-certificates.pem"

// Env returns the variables with the placeholders of the secrets.
func (p NetworkPolicy) Env() (env []string) {
	for _, s := range p.Secrets {
		env = append(env, s.Name+"="+s.Placeholder)
	}
	return env
}

// Gate opens the networks of sandboxes to what their policies allow.
type Gate interface {
	// Complete checks whether a policy can be enforced as it is written, and gives it the placeholders and the
	// authority that it lacks. The error is Invalid and names the position of the rule.
	Complete(*NetworkPolicy) error

	// Open takes over the outer end of a sandbox's network (Linker), also if it fails. The spec must be complete. A
	// panic in the passage ends the passage: failed is called with its value, at most once.
	Open(end io.ReadWriteCloser, spec Spec, owner string, failed func(panicked any)) (Passage, error)

	// MaxConnections is the highest NetworkPolicy.MaxConnections that Complete accepts.
	MaxConnections() int

	// Total counts the attempts of all sandboxes, also of those that have ended.
	Total() NetworkTotal
}

// Passage is the way out of one sandbox.
type Passage interface {
	NetworkLog

	// SetPolicy replaces the policy at once. Open connections that the new one refuses are reset. It returns how long
	// it compared the open connections with the new policy: there may be thousands.
	SetPolicy(NetworkPolicy) (compared time.Duration, err error)

	// SetOwner makes the passage another owner's, whose share of connections it uses from now on.
	SetOwner(owner string)

	// SetCPU replaces the CPU limit of the sandbox, up to which the passage works for it.
	SetCPU(millis int64)

	// Keep also keeps attempts in files of a folder, of bounded size, from now on. Those that an earlier passage kept
	// there come before them, and are counted. It is called at most once.
	Keep(dir string) error

	// Close resets all connections and waits. From then on nothing passes.
	Close() error
}

// NetworkLog keeps the last attempts of a sandbox to reach something, and counts all.
type NetworkLog interface {
	// Last returns up to n attempts, the oldest first.
	Last(n int) []NetworkAttempt
	// Current returns the connections that are open now, in no order. They become attempts once they are over.
	Current() []NetworkAttempt
	// Follow returns the first attempts after the one of this Seq; it waits until there is one, and fails once the
	// network is closed. A gap in Seq is what is no longer kept.
	Follow(ctx context.Context, seq uint64) ([]NetworkAttempt, error)
	// Position is the Seq of the latest attempt.
	Position() uint64
	// Summary returns the totals.
	Summary() NetworkSummary
	// Refusals returns what was refused after the attempt of this Seq, each destination once, at most n, the oldest
	// first.
	Refusals(seq uint64, n int) []NetworkRefusal
	// Failures returns likewise what was allowed and failed.
	Failures(seq uint64, n int) []NetworkFailure
	// Misplaced returns the placeholders that were sent and not replaced since the attempt of this Seq, at most n.
	Misplaced(seq uint64, n int) []NetworkMisplaced
}

// The protocols of attempts.
const (
	ProtocolTCP   = "tcp"
	ProtocolUDP   = "udp"
	ProtocolDNS   = "dns"
	ProtocolHTTP  = "http"  // a request on a connection without TLS, beside the attempt of its connection
	ProtocolHTTPS = "https" // a request that the gate reads because of Inspect or Secrets, likewise
	ProtocolIP    = "ip"    // a packet of another protocol; Reason says which
)

// NetworkAttempt is one attempt of the sandbox to reach something, logged once it is over. Strings that the sandbox
// chose are bounded; a name is canonical, a path is as it was sent.
type NetworkAttempt struct {
	Seq      uint64 // counts from 1 without gaps
	Time     time.Time
	Duration time.Duration
	Protocol string
	Name     string     // "" where none is known
	Address  netip.Addr // invalid for names
	Port     uint16
	Allowed  bool
	Rule     string // the rule that decided, or the mode full
	Reason   string // why it was refused, or how an allowed one failed
	Sent     int64  // bytes from the sandbox
	Received int64
	Method   string
	Path     string
	Status   int // 0 where none is known

	Secrets   []string // the names of those whose values were put in
	Misplaced []string // the names of those whose placeholders were sent where no value is put in
}

// Host is the name of the destination, else its address.
func (a *NetworkAttempt) Host() string {
	switch {
	case a.Name != "":
		return a.Name
	case a.Address.IsValid():
		return a.Address.String()
	}
	return ""
}

// NetworkTotal counts attempts.
type NetworkTotal struct {
	Allowed, Refused uint64
	Sent, Received   int64 // bytes
}

// NetworkOther is the key under which a summary counts what no longer has its own.
const NetworkOther = "other"

// NetworkSummary is what a log has counted since it began.
type NetworkSummary struct {
	NetworkTotal
	Protocols map[string]NetworkTotal
	Hosts     map[string]NetworkTotal // bounded; NetworkOther counts the rest
	Methods   map[string]uint64
	Statuses  map[int]uint64
}

// NetworkNoRule is the reason of a refusal of a destination that no rule lists.
const NetworkNoRule = "no rule allows it"

// NetworkRefusal is a destination that the policy refused.
type NetworkRefusal struct {
	// as a rule would name it: "api.example.org", "api.example.org:443", "[2001:db8::1]:443"
	Target string `json:"target"`
	Reason string `json:"reason"`
	Allow  string `json:"allow,omitempty"` // a rule that would let it pass; "" if none would
}

// NetworkFailure is a destination that the policy allows and that could not be reached.
type NetworkFailure struct {
	Target string `json:"target"` // as a rule would name it
	Reason string `json:"reason"`
}
