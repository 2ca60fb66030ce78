package egress

import (
	"cmp"

	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits bound what the gates of a Host hold together. A zero field has its default.
type Limits struct {
	// Connections is the most outgoing connections at once: TCP connections, UDP sessions and questions to the host's
	// resolver. Each holds a descriptor of this process. The default is half of the descriptors, so that the others
	// remain for clients, and for making and ending sandboxes.
	Connections int
	// OwnerConnections is the part of one owner. The default is half.
	OwnerConnections int
	// SandboxConnections is the highest NetworkPolicy.MaxConnections. The default is OwnerConnections.
	SandboxConnections int
	// Bytes is the most memory that open connections and requests may need, half of it for one owner. The default is an
	// eighth of the memory of the host, from 64 MiB to 1 GiB.
	Bytes int64
	// Ports is how many connections to one destination this host can have, half of them those of one owner. The default
	// is the kernel's range of ports.
	Ports int
	// Tracked is how many connections the firewall of this host tracks, a quarter of them those of one owner. The
	// default is that of the kernel; 0 is no bound.
	Tracked int
}

const (
	gateShare  = 2 // gates may hold 1/2 of this process's descriptors
	bytesShare = 8 // and 1/8 of the memory
	leastBytes = 64 << 20
	mostBytes  = 1 << 30
)

// The memory that a part of the gate's work may need at most, beyond buffers of the stack (bufferSizes).
const (
	connectionMemory = 96<<10 + 2*copySize    // goroutines, endpoint, heads of HTTP/1 that are read along
	sessionMemory    = 32<<10 + 3*maxDatagram // of UDP: two copies, and the queue of the stack
	interceptMemory  = 512 << 10              // TLS on the side of the sandbox, and control frames that wait
	serverMemory     = 96 << 10               // a further connection to a server, with TLS
	questionMemory   = 128 << 10              // a question to the host's resolver, with a long answer
)

// bufferSizes are sizes of the stack's buffers of a connection, in each direction. The first is used until gates hold
// a quarter of what they may, the second until half, and then the last. The link to the sandbox has a delay of some
// 100 microseconds, so even the last passes some 100 MB/s.
var bufferSizes = [...]int{maxBuffer, 64 << 10, 16 << 10}

// fewDescriptors is assumed where the limit of descriptors is unknown.
const fewDescriptors = 1024

// Complete fills in defaults.
func (l Limits) Complete() Limits {
	host := capacity.Host()
	if l.Connections == 0 {
		l.Connections = cmp.Or(int(host.OpenFiles), fewDescriptors) / gateShare
	}
	l.OwnerConnections = min(cmp.Or(l.OwnerConnections, (l.Connections+1)/2), l.Connections)
	l.SandboxConnections = min(cmp.Or(l.SandboxConnections, l.OwnerConnections), l.OwnerConnections)
	l.Ports, l.Tracked = cmp.Or(l.Ports, hostPorts()), cmp.Or(l.Tracked, hostTracked())
	if l.Bytes == 0 {
		l.Bytes = min(max(leastBytes, host.MemoryBytes/bytesShare), mostBytes)
	}
	return l
}

// budget is what the gates of a host hold.
type budget struct {
	limits      Limits
	connections *room.Room
	bytes       *room.Room
	ports       *ports
	processor   *processor
}

func newBudget(l Limits) *budget {
	l = l.Complete()
	b := &budget{limits: l, connections: room.New(int64(l.Connections), int64(l.OwnerConnections)),
		bytes: room.Halves(l.Bytes), ports: newPorts(l.Ports, l.Tracked), processor: newProcessor()}
	share := b.connections.Share()
	b.connections.Keep(share/4, share/8) // an eighth for owners with less than an eighth of a share
	return b
}

// bufferSize returns the size of the buffers of a new connection.
func (b *budget) bufferSize(owner string) int {
	most := b.bytes.Share()
	held := max(b.bytes.HeldBy(owner), b.bytes.Held()*most/b.limits.Bytes)
	return bufferSizes[min(int(4*held/most), len(bufferSizes)-1)]
}

// check refuses a policy that names more than any sandbox may have.
func (b *budget) check(p *sandbox.NetworkPolicy) error {
	if most := b.limits.SandboxConnections; p.MaxConnections > most {
		return sandbox.Invalidf("network.max_connections", "%d is more than %d, the maximum here", p.MaxConnections,
			most)
	}
	return nil
}
