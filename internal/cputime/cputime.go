// Package cputime measures the CPU time that this process takes for each client.
//
// A goroutine that works for a client carries a label with the client's name. The goroutines that it starts inherit the
// label. The CPU profile of the Go runtime takes 100 samples for each second of CPU time, each with its label.
package cputime

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"runtime/metrics"
	"runtime/pprof"
	"time"
)

// label is the key of the labels.
const label = "client"

// Label marks the calling goroutine, and those that it starts, as working for a client. The returned context carries
// the label for Aside.
func Label(ctx context.Context, client string) context.Context {
	ctx = pprof.WithLabels(ctx, pprof.Labels(label, client))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// Clear removes the label of the calling goroutine.
func Clear() { pprof.SetGoroutineLabels(context.Background()) }

// Aside clears the label, and back sets the one of the context again. Work in between has another limit, such as a
// slot, or outlives the request.
func Aside(ctx context.Context) (back func()) {
	Clear()
	return func() { pprof.SetGoroutineLabels(ctx) }
}

// Within sets the label of a context until back clears it, for a part of unlabelled work that belongs to a request.
func Within(ctx context.Context) (back func()) {
	pprof.SetGoroutineLabels(ctx)
	return Clear
}

// Without returns a context without the label, for work that several clients wait for.
func Without(ctx context.Context) context.Context {
	return pprof.WithLabels(ctx, pprof.Labels(label, ""))
}

// Measurement is a CPU profile in progress. A process has one at a time.
type Measurement struct {
	profile            bytes.Buffer
	process, collector time.Duration // taken before it
}

// Start begins to measure. It fails if another profile of this process is in progress. The caller calls Stop.
func Start() (*Measurement, error) {
	m := &Measurement{process: Process(), collector: collector()}
	if err := pprof.StartCPUProfile(&m.profile); err != nil {
		return nil, fmt.Errorf("measure CPU time: %w", err)
	}
	return m, nil
}

// Stop returns the CPU time of each client since Start, including its part of garbage collection.
func (m *Measurement) Stop() (map[string]time.Duration, error) {
	pprof.StopCPUProfile()
	unpacked, err := gzip.NewReader(&m.profile)
	if err != nil {
		return nil, fmt.Errorf("read the CPU profile: %w", err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("read the CPU profile: %w", err)
	}
	clients, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the CPU profile: %w", err)
	}
	collected, all := collector()-m.collector, Process()-m.process
	if collected < all/2 { // more includes the time before Start: the runtime adds it at the end of a collection
		for client, used := range clients {
			clients[client] = time.Duration(float64(used) / (1 - collected.Seconds()/all.Seconds()))
		}
	}
	return clients, nil
}

// collector returns the CPU time of the collector's own goroutines until the end of the last collection.
func collector() time.Duration {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}
