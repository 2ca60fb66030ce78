package plan

// Limits of one request. A request over one of them is refused as TooLarge or Invalid; nothing is cut.
const (
	MaxCode       = 10 << 20    // bytes of code
	MaxFiles      = 10_000      // files sent to the workspace
	MaxFilesBytes = 256 << 20   // bytes of those files together
	MaxStdin      = 64 << 20    // bytes
	MaxWord       = 128<<10 - 1 // bytes of one argument or variable: MAX_ARG_STRLEN of Linux, less its NUL (execve(2))
	// bytes of arguments and environment together: below a guest message, and below execve's own bound
	MaxWords       = 512 << 10
	MaxPath        = 4096 - 1 // bytes of a path: PATH_MAX less its NUL
	MaxName        = 255      // bytes of one element of a path: NAME_MAX
	MaxDepth       = 256      // elements of a path; the guest's limit too
	MaxGlobs       = 64       // patterns of files to return
	MaxGlob        = 1024     // bytes of one pattern
	MaxReturnFiles = 10_000
	MaxReturnBytes = 256 << 20 // bytes of all returned files
	MaxMetadata    = 64        // entries
	MaxVariables   = 1024      // of a sandbox, and of a run: each plan of a run merges them by name

	MaxMetadataName  = 128 // bytes
	MaxMetadataValue = 1024
)
