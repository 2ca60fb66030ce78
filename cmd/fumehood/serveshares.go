package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

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

// Parts of this process's descriptors, besides those of networks (egress.Limits). The rest is for listeners, and for
// making and ending sandboxes.
const (
	doorParts = 8  // clients at each of the two listeners may have 1/8
	portParts = 16 // connections to ports of sandboxes may have 1/16
)

// descriptorsOf returns a limit of connections: usual, unless this process may open few files.
func descriptorsOf(host sandbox.Limits, usual, parts int) int {
	if host.OpenFiles == 0 {
		return usual
	}
	return max(1, min(usual, int(host.OpenFiles)/parts))
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
