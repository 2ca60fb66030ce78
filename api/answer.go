package api

import (
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Answer is the result of a run. The sections after Timings are present if they are not empty or the request includes them.
type Answer struct {
	ID       sandbox.ID     `json:"id" doc:"Of the execution."`
	Status   sandbox.Status `json:"status" doc:"How it ended. A failed program is a status, never an HTTP error." enum:"succeeded,failed,timeout,out_of_memory,output_limit,killed,canceled,rejected,lost"`
	ExitCode *int           `json:"exit_code" doc:"Exit code of the program; null if a signal ended it or nothing ran."`
	Signal   *int           `json:"signal" doc:"Number of the signal that ended the program, or null."`

	Stdout  string             `json:"stdout" doc:"Output of the program as text. U+FFFD replaces bytes that are not UTF-8; output.stdout.base64 then has the bytes. Past the output limit, only start and end are kept; a line between them says how many bytes were dropped."`
	Stderr  string             `json:"stderr" doc:"The same for the error stream."`
	Results []Result           `json:"results" doc:"Values that the code showed. Empty if the language shows none."`
	Error   *sandbox.Exception `json:"error" doc:"The uncaught exception, parsed from stderr, or null."`
	Files   []File             `json:"files" doc:"New and changed files that match return_files."`
	Hint    *string            `json:"hint" doc:"What happened and what would help, in a sentence or two, or null."`
	Usage   Usage              `json:"usage"`
	Timings Timings            `json:"timings"`

	Packages []sandbox.Package `json:"packages,omitzero" doc:"What was installed for the run: there where anything was."`

	Phase    string            `json:"phase,omitempty" doc:"The phase that status, exit_code, stdout and stderr are about, where it is not the run itself: compile, if nothing was run." enum:"compile"`
	Compile  *Compile          `json:"compile,omitempty" doc:"What the compiler did: there if it failed or wrote anything, or include names it and there was one."`
	Findings []sandbox.Finding `json:"findings,omitzero" doc:"What the checks found in the source text: there if anything was, or include names it. They are advice, and no isolation layer."`
	Output   *Output           `json:"output,omitempty" doc:"What stdout and stderr cannot say: there where output was dropped or is not UTF-8, or include names it."`
	Skipped  []sandbox.Skipped `json:"skipped_files,omitzero" doc:"Files that match but were not handed back, and why: there where any are, or include names it."`
	More     int               `json:"skipped_more,omitzero" doc:"Files that were not handed back either, beyond those that skipped_files names."`
	Sandbox  *Policy           `json:"sandbox,omitempty" doc:"The policy as asked and as enforced: there where the two differ, or include names it."`
}

// Compile is the compile phase of a language that has one.
type Compile struct {
	ExitCode   *int    `json:"exit_code" doc:"Of the compiler; null if it was killed."`
	Stdout     string  `json:"stdout" doc:"Empty if it failed: stdout of the answer has it then."`
	Stderr     string  `json:"stderr" doc:"Warnings. Empty if it failed: stderr of the answer has it then."`
	DurationMS float64 `json:"duration_ms" doc:"Milliseconds from its start to its end; run_ms does not contain them."`
}

// Result is a value that the code showed.
type Result struct {
	Main bool              `json:"main" doc:"Whether it is the value of the last expression."`
	Data map[string]string `json:"data" doc:"The value by media type; base64 for image/png and image/jpeg."`
}

// File is one returned file. It has exactly one of Content and ContentBase64.
type File struct {
	Path          string  `json:"path" doc:"Relative to /workspace. U+FFFD replaces bytes that are not UTF-8."`
	Mode          string  `json:"mode" doc:"Permission bits in octal." example:"0644"`
	Size          int64   `json:"size" doc:"In bytes."`
	SHA256        string  `json:"sha256" doc:"Of the content, in hexadecimal."`
	Content       *string `json:"content,omitempty" doc:"The content, if it is UTF-8 without NUL characters."`
	ContentBase64 []byte  `json:"content_base64,omitempty" doc:"Else the content as base64."`
}

// Usage is what a run has cost. What this host cannot measure is null.
type Usage struct {
	WallMS          *float64 `json:"wall_ms" doc:"Milliseconds from the start of the program to its end."`
	CPUMS           *float64 `json:"cpu_ms" doc:"Milliseconds of CPU, user and system, of all processes."`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes" doc:"Peak memory, with the files in the workspace."`
	OOMKills        int64    `json:"oom_kills,omitempty" doc:"Processes that the kernel killed for lack of memory; absent if none."`
}

// Timings is the time of each phase, in milliseconds.
type Timings struct {
	QueueMS  float64 `json:"queue_ms" doc:"Waiting for a slot."`
	CreateMS float64 `json:"create_ms" doc:"Creating the sandbox."`
	UploadMS float64 `json:"upload_ms" doc:"Files in."`
	RunMS    float64 `json:"run_ms" doc:"The program."`
	FilesMS  float64 `json:"files_ms" doc:"Files out."`
}

// Output has the details of the two streams.
type Output struct {
	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
}

// Stream has the details of one stream.
type Stream struct {
	Truncated    bool   `json:"truncated" doc:"Whether output exceeded its limit."`
	DroppedBytes int64  `json:"dropped_bytes" doc:"Number of dropped bytes."`
	DroppedAt    int64  `json:"dropped_at,omitempty" doc:"Offset in base64 at which bytes were dropped."`
	Base64       []byte `json:"base64,omitempty" doc:"The kept bytes, only if they are not all UTF-8."`
}
