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

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Sections are what a request may name in include: the parts of an Answer that are otherwise there only where they have something to say.
var Sections = []string{"compile", "findings", "output", "skipped_files", "sandbox"}

// phaseCompile is Answer.Phase of a run whose code could not be compiled.
const phaseCompile = "compile"

func compiled(a *api.Answer, c *sandbox.Compiled, asked bool) {
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
	a.Compile = &api.Compile{Stdout: out.text, Stderr: errs.text, DurationMS: Millis(c.Duration)}
	if c.ExitCode >= 0 {
		a.Compile.ExitCode = &c.ExitCode
	}
}

// New turns a result into its JSON form, with hints in the words of a face. include names Sections to include even if empty. Lists are
// never null.
func New(f Face, r *sandbox.Result, include ...string) *api.Answer {
	out, errs := show(r.Stdout), show(r.Stderr)
	a := &api.Answer{
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
	compiled(a, r.Compiled, asked("compile"))
	if !out.plain() || !errs.plain() || asked("output") {
		a.Output = &api.Output{Stdout: out.Stream, Stderr: errs.Stream}
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
func NewShown(values []sandbox.Shown) []api.Result {
	out := make([]api.Result, len(values))
	for i, v := range values {
		out[i] = api.Result{Main: v.Main, Data: make(map[string]string, len(v.Forms))}
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

func newFiles(files []sandbox.File) []api.File {
	out := make([]api.File, len(files))
	for i, f := range files {
		sum := sha256.Sum256(f.Data)
		out[i] = api.File{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode), Size: int64(len(f.Data)), SHA256: hex.EncodeToString(sum[:])}
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

func newUsage(u sandbox.Usage) api.Usage {
	out := api.Usage{OOMKills: max(u.OOMKills, 0)}
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

func newTimings(t sandbox.Timings) api.Timings {
	return api.Timings{QueueMS: Millis(t.Queue), CreateMS: Millis(t.Create), UploadMS: Millis(t.Upload), RunMS: Millis(t.Run), FilesMS: Millis(t.Files)}
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
