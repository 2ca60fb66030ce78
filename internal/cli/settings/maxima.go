package settings

import (
	"cmp"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The default maxima of a request to serve. One run leaves enough for the rest of the host. Several runs together may
// exceed the host, unless the operator lowers the maxima.
const (
	memoryShare = 2       // a run may have 1/2 of the memory,
	diskShare   = 4       // 1/4 of it for files, which are in memory,
	pidsShare   = 2       // and all slots together 1/2 of the process ids
	inodeCost   = 2 << 10 // bytes of kernel memory for an inode in tmpfs, with its name; the disk limit excludes them

	unknownMemory = 4 << 30 // assumed if the host, or an engine's machine, does not report its memory
)

// largest are maxima that no host exceeds. An answer is in memory whole, as text and perhaps as bytes: up to 3 times
// the output.
var largest = sandbox.Limits{Pids: 4096, Inodes: 1 << 20, OpenFiles: 1 << 16, Timeout: time.Hour, OutputBytes: 16 << 20}

// Maxima returns the default maxima for a host and its slots. They are never below the built-in defaults, so that a
// small host serves default requests too.
func Maxima(host sandbox.Limits, slots int) sandbox.Limits {
	memory := cmp.Or(host.MemoryBytes, unknownMemory)
	most := largest
	most.MemoryBytes = readable(memory / memoryShare)
	most.CPUMillis = host.CPUMillis
	most.DiskBytes = readable(memory / diskShare)
	most.Inodes = min(most.Inodes, memory/diskShare/inodeCost)
	if host.OpenFiles > 0 {
		most.OpenFiles = min(most.OpenFiles, host.OpenFiles)
	}
	if host.Pids > 0 {
		most.Pids = min(most.Pids, host.Pids/pidsShare/int64(slots))
	}
	for _, name := range sandbox.LimitNames {
		most.Set(name, max(most.Get(name), sandbox.DefaultLimits.Get(name)))
	}
	return most
}

// readable rounds a size down to one that FormatBytes shows exactly, so that the maximum that is shown is valid.
func readable(size int64) int64 {
	const mib, gib = 1 << 20, 1 << 30
	if size < gib {
		return size / mib * mib
	}
	return size / (gib / 2) * (gib / 2)
}

// CheckCapacity refuses a limit above this host's capacity, which would limit nothing. Container engines, which may be
// on other machines, check limits themselves.
func CheckCapacity(limits sandbox.Limits, backend string) error {
	if backend == "docker" || backend == "podman" {
		return nil
	}
	host := capacity.Host()
	for _, l := range LimitFlags {
		if most := host.Get(l.Name); most > 0 && limits.Get(l.Name) > most {
			return sandbox.Invalidf("--"+l.Flag, "%s is more than the %s that this host has",
				sandbox.FormatLimit(l.Name, limits.Get(l.Name)), sandbox.FormatLimit(l.Name, most))
		}
	}
	return nil
}
