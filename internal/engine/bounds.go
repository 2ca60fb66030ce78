package engine

import "time"

// Limits of one request. A request over one of them is refused as TooLarge or Invalid; nothing is cut.
const (
	MaxCode        = 10 << 20    // bytes of code
	MaxFiles       = 10_000      // files sent to the workspace
	MaxFilesBytes  = 256 << 20   // bytes of those files together
	MaxStdin       = 64 << 20    // bytes
	MaxWord        = 128<<10 - 1 // bytes of one argument or variable: MAX_ARG_STRLEN of Linux, less its NUL (execve(2))
	MaxWords       = 512 << 10   // bytes of arguments and environment together: below a guest message, and below execve's own bound
	MaxPath        = 4096 - 1    // bytes of a path: PATH_MAX less its NUL
	MaxName        = 255         // bytes of one element of a path: NAME_MAX
	MaxDepth       = 256         // elements of a path; the guest's limit too
	MaxGlobs       = 64          // patterns of files to return
	MaxGlob        = 1024        // bytes of one pattern
	MaxReturnFiles = 10_000
	MaxReturnBytes = 256 << 20 // bytes of all returned files
	MaxMetadata    = 64        // entries
	MaxMetadatum   = 1024      // bytes of a key or a value
)

// Time limits.
const (
	createTimeout  = 2 * time.Minute // for a backend to build a box
	uploadTimeout  = 2 * time.Minute // to send the files
	collectTimeout = 1 * time.Minute // to fetch the files
	usageTimeout   = 5 * time.Second // to read the host's counters
	endTimeout     = 1 * time.Second // to find out how a lost box ended, for the hint

	// hostGrace is how long the host waits past the deadline for the guest, which enforces it. The guest shares the CPU limit with the
	// code, perhaps with a fork bomb, so it may be late.
	hostGrace = 500 * time.Millisecond
)

// An execution that writes more than outputFactor times its output limit, and more than outputFloor, is ended, because draining costs
// the host as much CPU as writing costs the sandbox. Less is drained and counted.
const (
	outputFactor = 64
	outputFloor  = 64 << 20 // bytes
)
