package sandbox

import "time"

// Status is how an execution ended, or where it is. It comes from outside the sandboxed process, never from what it says.
type Status string

// The statuses. An execution ends in exactly one of the first nine.
const (
	StatusSucceeded   Status = "succeeded"
	StatusFailed      Status = "failed"        // a non-zero exit code or an uncaught exception
	StatusTimeout     Status = "timeout"       // its deadline passed
	StatusOutOfMemory Status = "out_of_memory" // the kernel killed a process of it for want of memory
	StatusOutputLimit Status = "output_limit"  // it went on writing far past its output limit
	StatusKilled      Status = "killed"        // a signal from elsewhere
	StatusCanceled    Status = "canceled"      // the caller went away or said so
	StatusRejected    Status = "rejected"      // policy; nothing ran
	StatusLost        Status = "lost"          // the walls or the guest died; the outcome is unknown
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
)

// Terminal says whether the status is an end.
func (s Status) Terminal() bool { return s != StatusQueued && s != StatusRunning && s != "" }

// Request is one execution as a caller asks for it, decoded once at the edge. Exactly one of Code, Entry and Command is set.
type Request struct {
	Language string
	Code     []byte
	Entry    string // the code is this file, which already is in the workspace (or among Files); relative to the workspace
	FileName string // what the code calls itself in messages, without a folder; "" is the language's own default
	Command  []string
	Args     []string // appended to the command line of the code
	Stdin    []byte
	Files    []File   // put into the workspace before the start
	Env      []string // "NAME=value", over the sandbox's own
	Dir      string   // working directory; "" is Workspace
	Timeout  time.Duration
	Output   OutputFunc // receives output as it comes; may be nil
	Return   Return
	Metadata map[string]string
}

// OutputFunc receives output as it comes, in order within each stream. It is called from one goroutine at a time, and holding
// it up holds up the program. data is valid during the call only.
type OutputFunc func(stream Stream, data []byte)

// Stream is one of the two output streams of a process. A terminal has Stdout only.
type Stream uint8

// The output streams, numbered as the descriptors that they are.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Return says which files of the workspace are handed back after the execution.
type Return struct {
	Globs []string // patterns below the workspace, with ** for any depth; none returns nothing
	// Bounds; zero means the default of the same name below.
	MaxFiles     int
	MaxFileBytes int64
	MaxBytes     int64
}

// Bounds of what is handed back where the caller says nothing.
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

// Skipped is a file that was not handed back, and why.
type Skipped struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Reason string `json:"reason"`
}

// Captured is one output stream as kept: the head, and past the cap the tail as well.
type Captured struct {
	Head    []byte
	Tail    []byte
	Dropped int64 // bytes between the two that were not kept
}

// Exception is an uncaught error of the program, read from its stderr by the language. Advice, not evidence.
type Exception struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}

// Result is what an execution did, made and cost.
type Result struct {
	ID        ID
	Status    Status
	ExitCode  int // -1 where there is none
	Signal    int // 0 where there is none
	Stdout    Captured
	Stderr    Captured
	Exception *Exception
	Files     []File
	Skipped   []Skipped
	Usage     Usage
	Timings   Timings
	Requested Spec
	Asked     string // the backend as asked for: a name, or "auto"; the default's name where the run named none
	Effective Policy
	Hint      string // one or two sentences that a model can act on
}

// Timings says where the wall time of a one-shot run went.
type Timings struct {
	Queue  time.Duration // waiting for a slot
	Create time.Duration // building the walls, or taking a warm box
	Upload time.Duration // files in
	Run    time.Duration // the program
	Files  time.Duration // files out
}
