package sandbox

// State is the phase of a sandbox in its life.
type State string

// The states, in order.
const (
	StateCreating State = "creating" // its box is built, or taken over from an earlier server
	StateReady    State = "ready"    // it takes runs
	StatePaused   State = "paused"   // reserved; no backend pauses a sandbox yet
	StateEnding   State = "ending"   // it takes no more runs, and its box is removed
	StateEnded    State = "ended"    // Record.Reason says why
)
