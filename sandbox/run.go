package sandbox

import "time"

// Status is the state of a run, or how it ended. It is observed from outside the process, never reported by it.
type Status string

// The statuses. A run ends in exactly one of the first nine.
const (
	StatusSucceeded Status = "succeeded"
	// a non-zero exit code or an uncaught exception; also command not found (127) or not executable (126)
	StatusFailed      Status = "failed"
	StatusTimeout     Status = "timeout"       // its deadline passed
	StatusOutOfMemory Status = "out_of_memory" // the kernel killed one of its processes for lack of memory
	StatusOutputLimit Status = "output_limit"  // it wrote far past its output limit
	StatusKilled      Status = "killed"        // a signal from elsewhere
	StatusCanceled    Status = "canceled"      // the caller disconnected or canceled it
	StatusRejected    Status = "rejected"      // the policy forbids it; nothing ran
	StatusLost        Status = "lost"          // the sandbox or its guest died; the outcome is unknown
	StatusRunning     Status = "running"
)

// Terminal reports whether the run has ended.
func (s Status) Terminal() bool { return s != StatusRunning && s != "" }

// Request is one requested run. Exactly one of Code, Entry and Command is set.
type Request struct {
	Language string
	Code     []byte
	Entry    string // run this file of the workspace, or of Files; relative to the workspace
	FileName string // the code's file name, without a folder; "" is the language's default
	Command  []string
	Args     []string // arguments of the code
	Stdin    []byte
	Files    []File   // written to the workspace before the start
	Env      []string // "NAME=value", over the sandbox's own
	Packages Packages // of the code's language
	// receives what is done before the start, a line each, "" at its end; may be nil
	Progress func(line string) `json:"-"`
	Dir      string            // working directory; "" is Workspace
	Timeout  time.Duration
	Output   OutputFunc `json:"-"` // receives output as it arrives; may be nil
	Return   Return
	Metadata map[string]string
	Checks   CheckMode // "" is the engine's default; never weaker than the operator's
	Calls    Calls     // tools of the caller that code in a context can call
}

// OutputFunc receives output as it arrives, in order within each stream, from one goroutine at a time. While it blocks,
// the program blocks too. data is valid only during the call.
type OutputFunc func(stream Stream, data []byte)

// Stream is an output stream of a process. A terminal has Stdout only.
type Stream uint8

// The output streams, the first two numbered like their descriptors.
const (
	Stdout  Stream = 1
	Stderr  Stream = 2
	Channel Stream = 3 // reports of the driver of a context; users never see it

	// Background is what code of earlier runs of a context writes: threads, tasks, timers and processes that run on.
	Background Stream = 4
)

func (s Stream) String() string {
	switch s {
	case Stderr:
		return "stderr"
	case Channel:
		return "channel"
	case Background:
		return "background"
	}
	return "stdout"
}

// Return selects the workspace files to return after the run.
type Return struct {
	Globs []string // patterns below the workspace, with ** for any depth; none returns nothing
	// Limits; zero means the default of the same name below.
	MaxFiles     int
	MaxFileBytes int64
	MaxBytes     int64
}

// Defaults for Return.
const (
	DefaultReturnFiles     = 256
	DefaultReturnFileBytes = 16 << 20
	DefaultReturnBytes     = 64 << 20
)

// File is one regular file on its way into or out of a workspace. Path is relative to the workspace.
type File struct {
	Path string
	Mode uint32 // permission bits; 0 is 0644
	Data []byte
}

// Skipped is a file that was not returned. Path is never empty.
type Skipped struct {
	Path   string   `json:"path"`
	Size   int64    `json:"size"`
	Code   SkipCode `json:"code"`
	Reason string   `json:"reason"`
}

// SkipCode names why a file was not returned.
type SkipCode string

// The reasons.
const (
	SkipTooLarge   SkipCode = "too_large"  // it is over Return.MaxFileBytes
	SkipTooMany    SkipCode = "too_many"   // it comes after Return.MaxFiles others
	SkipTotal      SkipCode = "total_size" // with it, the files would exceed Return.MaxBytes
	SkipSymlink    SkipCode = "symlink"
	SkipDevice     SkipCode = "device"
	SkipPipe       SkipCode = "pipe"
	SkipSocket     SkipCode = "socket"
	SkipUnreadable SkipCode = "unreadable"
	SkipChanged    SkipCode = "changed"   // it changed during the read
	SkipUnwritten  SkipCode = "unwritten" // the caller's side could not write it
)

// Captured is the kept part of one output stream: its head and, past the limit, its tail.
type Captured struct {
	Head    []byte
	Tail    []byte
	Dropped int64 // bytes between the two
}

// Exception is an uncaught error of the program, parsed from stderr. It is a hint, not proof.
type Exception struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback,omitempty"` // as the interpreter prints it
}

// Result is the outcome of a run: status, output, files, usage and hints.
type Result struct {
	ID        ID
	Status    Status
	ExitCode  int // -1 if there is none; 130 with Signal 2, as in a shell
	Signal    int // 0 if there is none
	Stdout    Captured
	Stderr    Captured
	Findings  []Finding // of the checks of its source text
	Compiled  *Compiled // nil if nothing was compiled
	Exception *Exception
	// Background is what code of earlier runs of the context wrote since the last answer: threads, tasks, timers and
	// processes that run on.
	Background Captured
	Results    []Value // that code in a context displayed, in order
	Files      []File
	Packages   []Package // that were installed for it
	Skipped    []Skipped
	// SkippedMore counts files that were not returned, beyond those in Skipped.
	SkippedMore int
	Usage       Usage
	Timings     Timings
	Requested   Spec
	Effective   Policy
	Hints       []Hint // what happened and what would help, most important first; empty after a plain success
}

// Timings divides the elapsed time of a run.
type Timings struct {
	Queue  time.Duration // waiting for a slot
	Create time.Duration // creating the sandbox, or taking a warm one
	Upload time.Duration // files in
	Run    time.Duration // the program
	Files  time.Duration // files out
}
