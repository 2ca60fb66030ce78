package egress

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Options replace the ways of a gate to the outside. The zero value uses those of this host.
type Options struct {
	// Dial connects to an address that the rules allow, like net.Dialer.DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Resolve looks up a name that the rules allow, given with a dot at its end, like net.Resolver.LookupNetIP. The
	// default is the host's resolver, without IPv6 where the host has no route for it.
	Resolve func(ctx context.Context, network, name string) ([]netip.Addr, error)

	// Roots verify the certificates of servers.
	Roots *x509.CertPool
}

// Host is the sandbox.Gate that dials out from this host.
type Host struct {
	Options Options
	Limits  Limits

	tally tally
	once  sync.Once
	held  *budget // use budget
}

func (h *Host) budget() *budget {
	h.once.Do(func() { h.held = newBudget(h.Limits) })
	return h.held
}

// MaxConnections implements sandbox.Gate.
func (h *Host) MaxConnections() int { return h.budget().limits.SandboxConnections }

// Total implements sandbox.Gate.
func (h *Host) Total() Total {
	h.tally.mu.Lock()
	defer h.tally.mu.Unlock()
	return h.tally.total
}

// Check checks whether a policy can be enforced and lies within its ceiling. The error is Invalid and names the
// position of the rule.
func Check(p sandbox.NetworkPolicy) error {
	if _, err := rules.Compile(p); err != nil {
		return err
	}
	return rules.CheckWithin(p, routeOfAddress)
}

// CheckCeiling completes a ceiling and checks it.
func CheckCeiling(c *sandbox.NetworkCeiling) error { return rules.CheckCeiling(c) }

// Complete implements sandbox.Gate.
func (h *Host) Complete(p *sandbox.NetworkPolicy) error {
	if err := Check(*p); err != nil {
		return err
	}
	if err := h.budget().check(p); err != nil {
		return err
	}
	p.Secrets = slices.Clone(p.Secrets)
	for i := range p.Secrets {
		if s := &p.Secrets[i]; s.Placeholder == "" {
			s.Placeholder = intercept.NewPlaceholder(s.Value)
		}
	}
	if p.Authority != nil || !p.Reads() {
		return nil
	}
	var err error
	p.Authority, err = intercept.NewAuthority()
	return err
}

// Open implements sandbox.Gate. The end must be the *os.File of a TAP device.
func (h *Host) Open(
	end io.ReadWriteCloser, spec sandbox.Spec, owner string, failed func(any),
) (sandbox.Passage, error) {
	file, ok := end.(*os.File)
	if !ok {
		_ = end.Close() // nothing was written to it
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "gate",
			Msg: "the end of this network is not a device"}
	}
	g, err := h.open(file, spec, owner, failed)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// tally counts the attempts of all sandboxes, including ended ones.
type tally struct {
	mu    sync.Mutex
	total Total
}

func (t *tally) add(a *Attempt) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	addTo(&t.total, a)
}
