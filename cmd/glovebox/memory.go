package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/glovebox-dev/glovebox/internal/httpapi"
)

// collectAt is how much garbage serve gathers before it collects, in per cent of what lives. Little does, so that at the runtime's own
// 100 every tenth run paid for a collection.
const collectAt = 400

const (
	slotMemory = 64 << 20 // bytes of output and files that one run is reckoned to hold

	// Large buffers are given back to the kernel soon after their clients are gone: of itself the runtime waits for two minutes where
	// nothing else happens, and then is slow about it.
	returnEvery = 3 * time.Second
	returnOver  = 64 << 20 // bytes of heap, below which it is left in peace
)

// memoryLimit is how much memory serve's own heap may have before it is collected at any price, in place of collectAt: what is held for
// clients at most, in the two rooms and in the slots. It is soft, and GOMEMLIMIT stands in its place.
func memoryLimit(slots int) int64 {
	return httpapi.DefaultMaxBodies + httpapi.DefaultMaxAnswers + int64(slots)*slotMemory
}

// tendMemory sets when the garbage is collected, and returns large heaps to the kernel until the function it returns is called.
func tendMemory(slots int) (stop func()) {
	debug.SetGCPercent(collectAt)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(slots))
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(returnEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			if heap() > returnOver {
				debug.FreeOSMemory()
			}
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
