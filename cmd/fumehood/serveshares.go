package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// collectAt is GOGC of serve, in per cent. The live heap is small: at the default of 100, every tenth run paid for a
// collection.
const collectAt = 400

const (
	slotMemory  = 64 << 20 // bytes of output and files that one run is assumed to hold
	memoryShare = 2        // serve may have 1/2 of the memory
	roomParts   = 8        // bodies and answers may each have this part of the memory

	// Serve returns large buffers to the kernel soon after their clients are gone. An idle runtime waits two minutes
	// and then returns them slowly.
	returnEvery = 3 * time.Second
	returnOver  = 64 << 20 // bytes of heap; less is kept
	returnRests = 3        // most turns to skip after ones that returned nothing
)

// The descriptors of a sandbox: its connection, device, processes and log take some ten, its counters six.
const sandboxDescriptors = 18

// descriptors is how many of this process's descriptors serve may use for what; 0 is no limit. The rest is for
// listeners and for what sandboxes take.
type descriptors struct {
	networks int // connections of sandboxes
	clients  int // at each of the two listeners
	ports    int // connections to ports of sandboxes
}

// descriptorsOf divides the descriptors of a process with so many sandboxes. Where there are few, sandboxes get half.
func descriptorsOf(host sandbox.Limits, sandboxes int) descriptors {
	files := int(host.OpenFiles)
	if files == 0 {
		return descriptors{}
	}
	files -= min(files/2, sandboxes*sandboxDescriptors)
	return descriptors{networks: files / 2, clients: min(httpd.DefaultMaxConnections, max(1, files/8)),
		ports: min(engine.DefaultPorts, max(1, files/16))}
}

// roomOf returns the limit of bodies in memory, in bytes, and that of answers. It is lower on a host or in a control
// group with little memory, but never below the largest body.
func roomOf(host sandbox.Limits) int64 {
	room := int64(httpd.DefaultMaxBodies)
	if host.MemoryBytes > 0 {
		room = min(room, host.MemoryBytes/roomParts)
	}
	return max(room, 2*httpd.DefaultMaxBody)
}

// memoryLimit returns the soft memory limit of serve, past which the runtime collects regardless of collectAt: the size
// of rooms, slots and gates, at most half of the memory. GOMEMLIMIT overrides it.
func memoryLimit(host sandbox.Limits, slots int, gates int64) int64 {
	limit := 2*roomOf(host) + int64(slots)*slotMemory + gates
	if host.MemoryBytes > 0 {
		limit = min(limit, host.MemoryBytes/memoryShare)
	}
	return limit
}

// tendMemory configures garbage collection, and returns large heaps to the kernel until stop is called.
func tendMemory(limit int64) (stop func()) {
	debug.SetGCPercent(collectAt)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(returnEvery)
		defer ticker.Stop()
		for rests, left := 0, 0; ; {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			before := heap()
			if left--; left >= 0 || before <= returnOver {
				continue
			}
			debug.FreeOSMemory()
			if rests = min(2*rests+1, returnRests); heap() < before/4*3 {
				rests = 0
			}
			left = rests
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func heap() (n uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		n += s.Value.Uint64()
	}
	return n
}
