package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/glovebox-dev/glovebox/internal/httpd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// collectAt is how much garbage serve gathers before it collects, in per cent of what lives. Little does, so that at the runtime's own
// 100 every tenth run paid for a collection.
const collectAt = 400

const (
	slotMemory = 64 << 20 // bytes of output and files that one run is reckoned to hold
	roomParts  = 8        // of the memory, one for bodies and one for answers

	// Large buffers are given back to the kernel soon after their clients are gone: of itself the runtime waits for two minutes where
	// nothing else happens, and then is slow about it.
	returnEvery = 3 * time.Second
	returnOver  = 64 << 20 // bytes of heap, below which it is left in peace
	returnRests = 3        // at the most; so many turns are left out after ones that gave nothing back, as what is held is held
)

// roomOf is how many bytes of bodies, and as many of answers, serve holds at the same time: less than is usual where the host, or the control
// group around serve, has little memory. The largest body still finds room.
func roomOf(host sandbox.Limits) int64 {
	room := int64(httpd.DefaultMaxBodies)
	if host.MemoryBytes > 0 {
		room = min(room, host.MemoryBytes/roomParts)
	}
	return max(room, 2*httpd.DefaultMaxBody)
}

// memoryLimit is how much memory serve's own heap may have before it is collected at any price, in place of collectAt: what is held for
// clients at most, in the two rooms and in the slots, and half of all there is. It is soft, and GOMEMLIMIT stands in its place.
func memoryLimit(host sandbox.Limits, slots int) int64 {
	limit := 2*roomOf(host) + int64(slots)*slotMemory
	if host.MemoryBytes > 0 {
		limit = min(limit, host.MemoryBytes/memoryParts)
	}
	return limit
}

// tendMemory sets when the garbage is collected, and returns large heaps to the kernel until the function it returns is called.
func tendMemory(host sandbox.Limits, slots int) (stop func()) {
	debug.SetGCPercent(collectAt)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(host, slots))
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

// heap is how many bytes of memory the heap has from the kernel, garbage and free ones among them.
func heap() (n uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		n += s.Value.Uint64()
	}
	return n
}
