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
}

// gateShare is the part of this process's descriptors that gates may hold: 1/2.
const gateShare = 2

// fewDescriptors is assumed where the limit of descriptors is unknown.
const fewDescriptors = 1024

func (l Limits) complete() Limits {
	if l.Connections == 0 {
		l.Connections = cmp.Or(int(capacity.Host().OpenFiles), fewDescriptors) / gateShare
	}
	l.OwnerConnections = min(cmp.Or(l.OwnerConnections, (l.Connections+1)/2), l.Connections)
	l.SandboxConnections = min(cmp.Or(l.SandboxConnections, l.OwnerConnections), l.OwnerConnections)
	return l
}

// budget is what the gates of a host hold.
type budget struct {
	limits      Limits
	connections *room.Room
	processor   *processor
}

func newBudget(l Limits) *budget {
	l = l.complete()
	return &budget{limits: l, connections: room.New(int64(l.Connections), int64(l.OwnerConnections)),
		processor: newProcessor()}
}

// check refuses a policy that names more than any sandbox may have.
func (b *budget) check(p *sandbox.NetworkPolicy) error {
	if most := b.limits.SandboxConnections; p.MaxConnections > most {
		return sandbox.Invalidf("network.max_connections", "%d is more than %d, the maximum here", p.MaxConnections,
			most)
	}
	return nil
}
