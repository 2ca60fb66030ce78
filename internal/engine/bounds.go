package engine

import "time"

// Time limits.
const (
	createTimeout  = 2 * time.Minute // for a backend to build a box
	uploadTimeout  = 2 * time.Minute // to send the files
	collectTimeout = 1 * time.Minute // to fetch the files
	usageTimeout   = 5 * time.Second // to read the host's counters
	endTimeout     = 1 * time.Second // to find out how a lost box ended, for the hint

	// hostGrace is how long the host waits past the deadline for the guest, which enforces it. The guest shares the CPU
	// limit with the code, perhaps with a fork bomb, so it may be late.
	hostGrace = termGrace + 500*time.Millisecond

	// termGrace is how long a program may clean up after SIGTERM at its time limit, before SIGKILL.
	termGrace = time.Second
)

// A run that writes more than outputFactor times its output limit, and more than outputFloor, is ended, because
// draining costs the host as much CPU as writing costs the sandbox. Less is drained and counted.
const (
	outputFactor = 64
	outputFloor  = 64 << 20 // bytes
)
