// Package answer turns a run's result, or an error, into the JSON and the words of every face of Fumehood.
package answer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

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
	Results []Shown            `json:"results" doc:"Values that the code showed. Empty if the language shows none."`
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
	Sandbox  *Sandbox          `json:"sandbox,omitempty" doc:"The policy as asked and as enforced: there where the two differ, or include names it."`
}

// Sections are what a request may name in include: the parts of an Answer that are otherwise there only where they have something to say.
var Sections = []string{"compile", "findings", "output", "skipped_files", "sandbox"}

// Compile is the compile phase of a language that has one.
type Compile struct {
	ExitCode   *int    `json:"exit_code" doc:"Of the compiler; null if it was killed."`
	Stdout     string  `json:"stdout" doc:"Empty if it failed: stdout of the answer has it then."`
	Stderr     string  `json:"stderr" doc:"Warnings. Empty if it failed: stderr of the answer has it then."`
	DurationMS float64 `json:"duration_ms" doc:"Milliseconds from its start to its end; run_ms does not contain them."`
}

// phaseCompile is Answer.Phase of a run whose code could not be compiled.
const phaseCompile = "compile"

func (a *Answer) compiled(c *sandbox.Compiled, asked bool) {
	if c == nil {
		return
	}
	if c.Failed {
		a.Phase = phaseCompile
	}
	out, errs := show(c.Stdout), show(c.Stderr)
	if !c.Failed && out.text == "" && errs.text == "" && !asked {
		return
	}
	a.Compile = &Compile{Stdout: out.text, Stderr: errs.text, DurationMS: Millis(c.Duration)}
	if c.ExitCode >= 0 {
		a.Compile.ExitCode = &c.ExitCode
	}
}

// Shown is a value that the code showed.
type Shown struct {
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

// New turns a result into its JSON form, with hints in the words of a face. include names Sections to include even if empty. Lists are
// never null.
func New(f Face, r *sandbox.Result, include ...string) *Answer {
	out, errs := show(r.Stdout), show(r.Stderr)
	a := &Answer{
		ID: r.ID, Status: r.Status, Stdout: out.text, Stderr: errs.text,
		Results: NewShown(r.Shown), Error: r.Exception, Files: newFiles(r.Files),
		Usage: newUsage(r.Usage), Timings: newTimings(r.Timings),
	}
	if r.ExitCode >= 0 && r.Signal == 0 {
		a.ExitCode = &r.ExitCode
	}
	if r.Signal > 0 {
		a.Signal = &r.Signal
	}
	if hint := f.Hint(r.Hints); hint != "" {
		a.Hint = &hint
	}
	asked := func(section string) bool { return slices.Contains(include, section) }
	a.compiled(r.Compiled, asked("compile"))
	if !out.plain() || !errs.plain() || asked("output") {
		a.Output = &Output{out.Stream, errs.Stream}
	}
	if len(r.Findings) > 0 || asked("findings") {
		a.Findings = List(r.Findings)
	}
	a.More, a.Packages = r.SkippedMore, r.Packages
	if len(r.Skipped) > 0 || asked("skipped_files") {
		a.Skipped = List(r.Skipped)
	}
	if differences := r.Differences(); len(differences) > 0 || asked("sandbox") {
		a.Sandbox = newSandbox(r, differences)
	}
	return a
}

// NewShown turns values that code showed into their JSON form. Pictures are bytes; all else is text.
func NewShown(values []sandbox.Shown) []Shown {
	out := make([]Shown, len(values))
	for i, v := range values {
		out[i] = Shown{Main: v.Main, Data: make(map[string]string, len(v.Forms))}
		for _, form := range v.Forms {
			if form.Type == "image/png" || form.Type == "image/jpeg" {
				out[i].Data[form.Type] = base64.StdEncoding.EncodeToString(form.Data)
			} else {
				out[i].Data[form.Type] = string(form.Data)
			}
		}
	}
	return out
}

func newFiles(files []sandbox.File) []File {
	out := make([]File, len(files))
	for i, f := range files {
		sum := sha256.Sum256(f.Data)
		out[i] = File{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode), Size: int64(len(f.Data)), SHA256: hex.EncodeToString(sum[:])}
		if isText(f.Data) {
			content := string(f.Data)
			out[i].Content = &content
		} else {
			out[i].ContentBase64 = f.Data
		}
	}
	return out
}

// isText reports whether a JSON string can hold the bytes unchanged. NUL is excluded, as many readers stop there.
func isText(data []byte) bool { return utf8.Valid(data) && !slices.Contains(data, 0) }

func newUsage(u sandbox.Usage) Usage {
	out := Usage{OOMKills: max(u.OOMKills, 0)}
	if u.Wall >= 0 {
		wall := Millis(u.Wall)
		out.WallMS = &wall
	}
	if u.CPU >= 0 {
		cpu := Millis(u.CPU)
		out.CPUMS = &cpu
	}
	if u.MemoryPeak >= 0 {
		out.PeakMemoryBytes = &u.MemoryPeak
	}
	return out
}

func newTimings(t sandbox.Timings) Timings {
	return Timings{QueueMS: Millis(t.Queue), CreateMS: Millis(t.Create), UploadMS: Millis(t.Upload), RunMS: Millis(t.Run), FilesMS: Millis(t.Files)}
}

// Millis is a duration in milliseconds, to the microsecond.
func Millis(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }

// List returns list, or an empty one for nil, which would be null in JSON.
func List[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}
