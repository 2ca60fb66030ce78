package settings

import (
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestMaximaOfSmallHosts: every host serves default requests, and one run never gets all of a usual host.
func TestMaximaOfSmallHosts(t *testing.T) {
	const gib = 1 << 30
	for _, host := range []sandbox.Limits{
		{}, // unknown
		{MemoryBytes: gib / 4, CPUMillis: 500, Pids: 100},
		{MemoryBytes: 2 * gib, CPUMillis: 1000, Pids: 32768},
		{MemoryBytes: 256 * gib, CPUMillis: 64000, Pids: 65536},
	} {
		most := Maxima(host, max(4, int(host.CPUMillis)/500))
		if err := most.Check(); err != nil {
			t.Errorf("%+v: %v", host, err)
		}
		for _, name := range sandbox.LimitNames {
			if most.Get(name) < sandbox.DefaultLimits.Get(name) {
				t.Errorf("%+v: %s is at most %d", host, name, most.Get(name))
			}
		}
		if host.MemoryBytes >= 2*gib && most.MemoryBytes+most.DiskBytes+most.Inodes*inodeCost > host.MemoryBytes {
			t.Errorf("%+v: one run may have %+v", host, most)
		}
	}
}
