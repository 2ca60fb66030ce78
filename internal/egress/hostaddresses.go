package egress

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// hostAddresses are the addresses of this host, read again when they are older than hostAddressesAge.
type hostAddresses struct {
	list func() ([]net.Addr, error)

	mu   sync.Mutex
	read time.Time
	set  map[netip.Addr]bool
}

const hostAddressesAge = 5 * time.Second

// has reports whether the host has this address, also behind NAT64. While the list cannot be read, it has every one.
func (h *hostAddresses) has(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil || time.Since(h.read) > hostAddressesAge {
		list, err := h.list()
		if err != nil {
			return true
		}
		h.set, h.read = map[netip.Addr]bool{}, time.Now()
		for _, entry := range list {
			if network, ok := entry.(*net.IPNet); ok {
				if own, ok := netip.AddrFromSlice(network.IP); ok {
					h.set[rules.Canonical(own)] = true
				}
			}
		}
	}
	return h.set[a] || h.set[rules.BehindNAT64(a)]
}
