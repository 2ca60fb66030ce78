package main

import (
	"cmp"
	"time"

	"github.com/glovebox-dev/glovebox/internal/capacity"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// The most that a request to serve may ask for where the operator names no other maximum. What a host has is divided so that one run
// leaves the rest of it alive; several at once may ask for more than there is, which is the operator's to lower.
const (
	memoryParts = 2 // one run may have half of the memory,
	diskParts   = 4 // of it at most this part for files, which lie there
	pidsParts   = 2 // all slots together may have half of the process ids

	mostPids      = 4096
	mostInodes    = 1 << 20
	inodeCost     = 2 << 10 // bytes of the kernel's memory for one in tmpfs, with its name; the bytes of the disk limit do not count them
	mostOpenFiles = 1 << 16
	mostTimeout   = time.Hour
	mostOutput    = 16 << 20 // an answer is held in memory whole, as text and, where that does not say all, as bytes: up to 3 times what was written

	unknownMemory = 4 << 30 // stands for that of a host, or an engine's machine, that does not say
)

// maxima are what serve allows on such a host, with so many slots. They are never below the built-in defaults, so that a request that names
// nothing is served on a small host, too.
func maxima(host sandbox.Limits, slots int) sandbox.Limits {
	memory := cmp.Or(host.MemoryBytes, unknownMemory)
	most := sandbox.Limits{
		MemoryBytes: readable(memory / memoryParts),
		CPUMillis:   host.CPUMillis,
		Pids:        mostPids,
		DiskBytes:   readable(memory / diskParts),
		Inodes:      min(mostInodes, memory/diskParts/inodeCost),
		OpenFiles:   mostOpenFiles,
		Timeout:     mostTimeout,
		OutputBytes: mostOutput,
	}
	if host.OpenFiles > 0 {
		most.OpenFiles = min(most.OpenFiles, host.OpenFiles)
	}
	if host.Pids > 0 {
		most.Pids = min(most.Pids, host.Pids/pidsParts/int64(slots))
	}
	for _, name := range sandbox.LimitNames {
		most.Set(name, max(most.Get(name), sandbox.DefaultLimits.Get(name)))
	}
	return most
}

// readable rounds a size down to one that FormatBytes shows as it is: what is shown as the most can be asked for.
func readable(size int64) int64 {
	const mib, gib = 1 << 20, 1 << 30
	if size < gib {
		return size / mib * mib
	}
	return size / (gib / 2) * (gib / 2)
}

// maximaShown says in a flag's help where a maximum comes from.
var maximaShown = map[sandbox.LimitName]string{
	sandbox.LimitMemory:    "half of that of this host",
	sandbox.LimitCPUs:      "those of this host",
	sandbox.LimitPids:      sandbox.FormatLimit(sandbox.LimitPids, mostPids) + ", or less",
	sandbox.LimitDisk:      "a quarter of memory",
	sandbox.LimitInodes:    sandbox.FormatLimit(sandbox.LimitInodes, mostInodes) + ", or less",
	sandbox.LimitOpenFiles: sandbox.FormatLimit(sandbox.LimitOpenFiles, mostOpenFiles) + ", or less",
	sandbox.LimitTimeout:   sandbox.FormatLimit(sandbox.LimitTimeout, int64(mostTimeout)),
	sandbox.LimitOutput:    sandbox.FormatLimit(sandbox.LimitOutput, mostOutput),
}

// checkHost refuses a limit above what this host has: it would bound nothing. An engine may have another machine, and says so itself.
func checkHost(limits sandbox.Limits, backend string) error {
	if backend == "docker" || backend == "podman" {
		return nil
	}
	host := capacity.Host()
	for _, l := range limitFlags {
		if most := host.Get(l.name); most > 0 && limits.Get(l.name) > most {
			return sandbox.Invalidf("--"+l.flag, "%s is more than the %s that this host has",
				sandbox.FormatLimit(l.name, limits.Get(l.name)), sandbox.FormatLimit(l.name, most))
		}
	}
	return nil
}
