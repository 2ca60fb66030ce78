package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Answer is the answer to a run.
type Answer struct {
	// Output of the program as text. U+FFFD replaces bytes that are not UTF-8; output.stdout.base64 then has the bytes.
	// Past the output limit only start and end are kept; a line between them has the number of dropped bytes.
	Stdout  string   `json:"stdout"`
	Stderr  string   `json:"stderr"`  // The same for the error stream.
	Results []Result `json:"results"` // Values that the code displayed.
	// What a model should see of all this: output as a terminal shows it at the end, values, the exception, the status
	// unless the run succeeded, and the hint. At most 80 KiB.
	Text string `json:"text"`
	// Details of stdout and stderr: present if output was dropped or is not UTF-8, or if include names it.
	Output *Output `json:"output,omitempty"`

	Outcome
}

// Outcome is how a run ended, what it cost and which files it returned. Optional sections are present if they are not
// empty, or if include names them.
type Outcome struct {
	ID sandbox.ID `json:"id"`
	// How the run ended. A failed program is a status, never an HTTP error.
	Status   sandbox.Status `json:"status"`
	ExitCode *int           `json:"exit_code"` // null if a signal ended the program or nothing ran.
	Signal   *int           `json:"signal"`    // Number of the signal that ended the program, or null.
	// The uncaught exception, or null. It has no traceback if stderr has it.
	Exception *sandbox.Exception `json:"exception"`
	// What code of earlier runs of the context wrote since the last answer: threads, tasks, timers and processes that
	// run on. Past 8 KiB only start and end are kept.
	Background string `json:"background,omitempty"`
	Files      []File `json:"files"` // New and changed files that match return_files.
	// Explanation and suggested fix in one or two sentences, or null.
	Hint *string `json:"hint"`
	// The hint in parts, most important first, with the facts of each.
	Hints   []Hint  `json:"hints,omitempty"`
	Usage   Usage   `json:"usage"`
	Timings Timings `json:"timings"`

	Packages []sandbox.Package `json:"packages,omitzero"` // Packages that were installed for the run.

	// The phase that status, exit_code, stdout and stderr describe, if it is not the run itself: compile, if nothing
	// ran.
	Phase string `json:"phase,omitempty" enum:"compile"`
	// Output of the compiler: present if it failed or wrote anything, or if include names it.
	Compile *Compile `json:"compile,omitempty"`
	// Findings of the checks of the source text, which are advice, not isolation. Unless the request names checks or
	// include names findings, or the server has checks configured, only those of rules that refuse code.
	Findings []sandbox.Finding `json:"findings,omitzero"`
	Skipped  []sandbox.Skipped `json:"skipped_files,omitzero"` // Files that match but were not returned, and why.
	More     int               `json:"skipped_more,omitzero"`  // Number of further files that were not returned.
	// The requested and the enforced policy: present if they differ by more than the server's configuration waives, or
	// if include names it.
	Policy *Policy `json:"policy,omitempty"`
}

// Section names an optional section of an answer.
type Section string

// The optional sections.
const (
	SectionCompile  Section = "compile"
	SectionFindings Section = "findings"
	SectionOutput   Section = "output"
	SectionSkipped  Section = "skipped_files"
	SectionPolicy   Section = "policy"
)

// Sections lists the optional sections.
var Sections = []Section{SectionCompile, SectionFindings, SectionOutput, SectionSkipped, SectionPolicy}

// Result is a value that the code displayed.
type Result struct {
	Main bool `json:"main"` // Whether it is the value of the last expression.
	// The value by media type; base64 for image/png and image/jpeg. Libraries have their own, such as
	// application/vnd.plotly.v1+json.
	Data map[string]string `json:"data"`
}

// Output has the details of stdout and stderr.
type Output struct {
	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
}

// Stream has the details of one output stream.
type Stream struct {
	Truncated    bool   `json:"truncated"`            // Whether output exceeded its limit.
	DroppedBytes int64  `json:"dropped_bytes"`        // Number of dropped bytes.
	DroppedAt    int64  `json:"dropped_at,omitempty"` // Offset in base64 at which bytes were dropped.
	Base64       []byte `json:"base64,omitempty"`     // The kept bytes, only if they are not all UTF-8.
}

// Compile is the compile phase of a language that has one.
type Compile struct {
	ExitCode   *int    `json:"exit_code"`   // Exit code of the compiler; null if it was killed.
	Stdout     string  `json:"stdout"`      // Empty if the compiler failed: stdout of the answer has it then.
	Stderr     string  `json:"stderr"`      // Warnings. Empty if the compiler failed: stderr of the answer has it then.
	DurationMS float64 `json:"duration_ms"` // Milliseconds from its start to its end; run_ms does not include them.
}

// Usage is the cost of a run. null: this host cannot measure it.
type Usage struct {
	WallMS          *float64 `json:"wall_ms"`             // Milliseconds from the start of the program to its end.
	CPUMS           *float64 `json:"cpu_ms"`              // Milliseconds of CPU, user and system, of all processes.
	PeakMemoryBytes *int64   `json:"peak_memory_bytes"`   // Peak memory, with the files in the workspace.
	OOMKills        int64    `json:"oom_kills,omitempty"` // Processes killed for lack of memory.
}

// Timings is the time of each phase, in milliseconds.
type Timings struct {
	QueueMS  float64 `json:"queue_ms"`  // Waiting for a slot.
	CreateMS float64 `json:"create_ms"` // Creating the sandbox.
	UploadMS float64 `json:"upload_ms"` // Writing the files of the request.
	RunMS    float64 `json:"run_ms"`    // The program.
	FilesMS  float64 `json:"files_ms"`  // Collecting returned files.
}
