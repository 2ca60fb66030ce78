package main

import (
	"cmp"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The default maxima of a request to serve. One run leaves enough for the rest of the host. Several runs together may exceed the host,
// unless the operator lowers the maxima.
const (
	memoryParts = 2 // one run may have half of the memory,
	diskParts   = 4 // of it, at most this part for files, which are in memory
	pidsParts   = 2 // all slots together may have half of the process ids

	mostPids      = 4096
	mostInodes    = 1 << 20
	inodeCost     = 2 << 10 // bytes of kernel memory for one in tmpfs, with its name; the disk limit does not count them
	mostOpenFiles = 1 << 16
	mostTimeout   = time.Hour
	mostOutput    = 16 << 20 // an answer is in memory whole, as text and perhaps as bytes: up to 3 times the output

	unknownMemory = 4 << 30 // assumed if the host, or an engine's machine, does not report its memory
)

// maxima returns the default maxima for a host and its slots. They are never below the built-in defaults, so that a small host serves
// default requests too.
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

// readable rounds a size down to one that FormatBytes shows exactly, so that the shown maximum is valid.
func readable(size int64) int64 {
	const mib, gib = 1 << 20, 1 << 30
	if size < gib {
		return size / mib * mib
	}
	return size / (gib / 2) * (gib / 2)
}

// maximaShown describes the default maxima in the help of flags.
var maximaShown = map[sandbox.LimitName]string{
	sandbox.LimitMemory:    "half of this host's",
	sandbox.LimitCPUs:      "all of this host's",
	sandbox.LimitPids:      sandbox.FormatLimit(sandbox.LimitPids, mostPids) + ", or less",
	sandbox.LimitDisk:      "a quarter of memory",
	sandbox.LimitInodes:    sandbox.FormatLimit(sandbox.LimitInodes, mostInodes) + ", or less",
	sandbox.LimitOpenFiles: sandbox.FormatLimit(sandbox.LimitOpenFiles, mostOpenFiles) + ", or less",
	sandbox.LimitTimeout:   sandbox.FormatLimit(sandbox.LimitTimeout, int64(mostTimeout)),
	sandbox.LimitOutput:    sandbox.FormatLimit(sandbox.LimitOutput, mostOutput),
}

// checkHost refuses a limit above this host's capacity, which would limit nothing. Container engines on other machines check themselves.
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
