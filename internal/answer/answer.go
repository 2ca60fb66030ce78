// Package answer encodes results and errors as the JSON of the HTTP API.
package answer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// phaseCompile is Answer.Phase of a run whose code could not be compiled.
const phaseCompile = "compile"

// setCompile sets the compile phase, unless it is silent and successful and not included.
func setCompile(a *api.Outcome, c *sandbox.Compiled, included bool) {
	if c == nil {
		return
	}
	if c.Failed {
		a.Phase = phaseCompile
	}
	out, errs := render(c.Stdout), render(c.Stderr)
	if !c.Failed && out.text == "" && errs.text == "" && !included {
		return
	}
	a.Compile = &api.Compile{Stdout: out.text, Stderr: errs.text, DurationMS: Millis(c.Duration)}
	if c.ExitCode >= 0 {
		a.Compile.ExitCode = &c.ExitCode
	}
}

// New converts a result, with hints in the words of a face. include names sections to return even if empty. Lists are
// never null.
func New(f wording.Face, r *sandbox.Result, include ...api.Section) *api.Answer {
	out, errs := render(r.Stdout), render(r.Stderr)
	a := &api.Answer{Outcome: NewOutcome(f, r, include...), Stdout: out.text, Stderr: errs.text,
		Results: NewResults(r.Results)}
	a.Exception = WithoutTrace(a.Exception, a.Stderr)
	account := NewAccount(f, r)
	if n := account.Pictures; n > 0 {
		account.Notes = append(account.Notes, fmt.Sprintf("%d of the results are pictures.", n))
	}
	a.Text = account.String()
	if !out.plain() || !errs.plain() || slices.Contains(include, api.SectionOutput) {
		a.Output = &api.Output{Stdout: out.Stream, Stderr: errs.Stream}
	}
	return a
}

// WithoutTrace returns an exception without the traceback that stderr has already.
func WithoutTrace(e *sandbox.Exception, stderr string) *sandbox.Exception {
	if e == nil || !strings.Contains(stderr, strings.TrimSpace(e.Traceback)) {
		return e
	}
	return &sandbox.Exception{Name: e.Name, Value: e.Value}
}

// NewOutcome converts a result without its output and values.
func NewOutcome(f wording.Face, r *sandbox.Result, include ...api.Section) api.Outcome {
	o := api.Outcome{
		ID: r.ID, Status: r.Status, Exception: r.Exception, Files: newFiles(r.Files), Usage: newUsage(r.Usage),
		Timings: newTimings(r.Timings), Packages: r.Packages, More: r.SkippedMore, Background: Text(r.Background),
	}
	if r.ExitCode >= 0 && r.Signal == 0 {
		o.ExitCode = &r.ExitCode
	}
	if r.Signal > 0 {
		o.Signal = &r.Signal
	}
	SetHints(&o, f, r.Hints)
	included := func(section api.Section) bool { return slices.Contains(include, section) }
	setCompile(&o, r.Compiled, included(api.SectionCompile))
	if len(r.Findings) > 0 || included(api.SectionFindings) {
		o.Findings = List(r.Findings)
	}
	if len(r.Skipped) > 0 || included(api.SectionSkipped) {
		o.Skipped = List(r.Skipped)
	}
	if differences := r.Differences(); r.Requested.Unexpected(differences) || included(api.SectionPolicy) {
		o.Policy = newPolicy(r, differences)
	}
	return o
}

// SetHints puts hints into an outcome, in the words of a face.
func SetHints(o *api.Outcome, f wording.Face, hints []sandbox.Hint) {
	o.Hint, o.Hints = nil, nil
	if text := f.Hint(hints); text != "" {
		o.Hint = &text
	}
	for i, text := range f.Each(hints) {
		o.Hints = append(o.Hints, api.NewHint(hints[i], text))
	}
}

// NewResults converts the values that code displayed. Pictures become base64; other forms are text.
func NewResults(values []sandbox.Value) []api.Result {
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
		sum, size := sha256.Sum256(f.Data), int64(len(f.Data))
		out[i] = api.File{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode), Size: &size,
			SHA256: hex.EncodeToString(sum[:])}
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
	return api.Timings{QueueMS: Millis(t.Queue), CreateMS: Millis(t.Create), UploadMS: Millis(t.Upload),
		RunMS: Millis(t.Run), FilesMS: Millis(t.Files)}
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
