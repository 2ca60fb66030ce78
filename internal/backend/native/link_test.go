package native

import (
	"slices"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// linkedSpec is a spec with a network, where this host has what it takes.
func linkedSpec(t testing.TB) sandbox.Spec {
	t.Helper()
	if err := tap.Available(); err != nil {
		backendtest.Skip(t, "network", err)
	}
	s := spec()
	s.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	return s
}

// specFor is a spec of which the creation has this step.
func specFor(t testing.TB, step string) sandbox.Spec {
	if step == failLink {
		return linkedSpec(t)
	}
	return spec()
}

// BenchmarkLinked makes sandboxes with and without a network in turn, and tells how much later the former are ready, in
// the median.
func BenchmarkLinked(b *testing.B) {
	backend, linked := open(b, ""), linkedSpec(b)
	var took [2][]time.Duration
	for b.Loop() {
		for i, s := range []sandbox.Spec{spec(), linked} {
			s.ID = sandbox.NewID()
			began := time.Now()
			box, err := backend.Create(b.Context(), s)
			if err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
			b.Cleanup(func() { // not here: what the kernel does for it for 30 ms would count for the next one
				if err := box.Close(); err != nil {
					b.Error(err)
				}
			})
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	middle := len(took[0]) / 2
	b.ReportMetric(float64((took[1][middle] - took[0][middle]).Microseconds()), "later-us")
	b.ReportMetric(float64(took[0][middle].Microseconds()), "without-us")
}
