package wire

import "time"

// Frames that carry nothing: for an ended stream, empty, or with little credit. A guest sends few, and at most those of
// InitialCredit at once for a stream that the host has reset. A hostile one could keep this process busy with them, at
// a tenth of its own CPU time.
const (
	wasteBurst  = 1 << 17 // that a peer may send at once
	wasteRate   = 10_000  // and then in a second
	wasteBytes  = 4 << 10 // of data count as one more
	leastCredit = 1 << 10 // with less, a credit frame carries nothing
)

// waste counts the frames of a peer that carry nothing. The zero value has counted none.
type waste struct {
	used   float64
	counts time.Time // of the last one
}

// take counts a frame with n bytes of data. It reports whether the peer may send it.
func (w *waste) take(n int, now time.Time) bool {
	w.used = max(0, w.used-now.Sub(w.counts).Seconds()*wasteRate) + 1 + float64(n)/wasteBytes
	w.counts = now
	return w.used <= wasteBurst
}
