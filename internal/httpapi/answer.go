package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Answer is what a run did, made and cost, as every face of Glovebox prints it in JSON.
type Answer struct {
	ID       sandbox.ID     `json:"id" doc:"Of the execution."`
	Status   sandbox.Status `json:"status" doc:"How it ended. What the program did is a status, never an HTTP error." enum:"succeeded,failed,timeout,out_of_memory,output_limit,killed,canceled,rejected,lost"`
	ExitCode *int           `json:"exit_code" doc:"The program's own; null where a signal ended it or nothing ran."`
	Signal   *int           `json:"signal" doc:"Number of the signal that ended the program; null where none did."`

	Stdout          string `json:"stdout" doc:"Text that the program wrote. Bytes that are not UTF-8 are shown as U+FFFD; stdout_base64 then has them."`
	Stderr          string `json:"stderr" doc:"The same of the error stream."`
	StdoutBase64    []byte `json:"stdout_base64,omitempty" doc:"The kept bytes as they were, only where they are not all UTF-8. Dropped bytes are missing at stdout_gap."`
	StderrBase64    []byte `json:"stderr_base64,omitempty" doc:"The same of the error stream."`
	StdoutTruncated bool   `json:"stdout_truncated" doc:"Whether output was over its limit: then its start and its end are kept, and a line between them says how much is missing."`
	StderrTruncated bool   `json:"stderr_truncated" doc:"The same of the error stream."`
	StdoutDropped   int64  `json:"stdout_dropped" doc:"Bytes that were not kept."`
	StderrDropped   int64  `json:"stderr_dropped" doc:"The same of the error stream."`
	StdoutGap       int64  `json:"stdout_gap,omitempty" doc:"Offset in stdout_base64 at which bytes were dropped."`
	StderrGap       int64  `json:"stderr_gap,omitempty" doc:"The same of the error stream."`

	Results []map[string]string `json:"results" doc:"Values that the code showed, each as content by media type. Empty where the language shows none."`
	Error   *sandbox.Exception  `json:"error" doc:"The uncaught exception, read from stderr; null where there is none."`
	Files   []FileOut           `json:"files" doc:"Files that were made or changed and match return_files."`
	Skipped []sandbox.Skipped   `json:"skipped_files" doc:"Files that match but were not handed back, and why."`

	Findings []Finding `json:"findings" doc:"What static checks found. Empty where none ran."`
	Usage    Usage     `json:"usage"`
	Timings  Timings   `json:"timings"`
	Backend  string    `json:"backend" doc:"Whose walls it ran in."`

	Requested Requested `json:"requested" doc:"The policy as asked, with the server's defaults filled in."`
	Effective Effective `json:"effective" doc:"The policy as it was really enforced."`

	Differences []sandbox.Difference `json:"differences" doc:"Where less was enforced than asked: let go of by allow_unenforced, or a default that the request did not name."`

	Hint string `json:"hint" doc:"What happened and what would help, in a sentence or two; empty after a success."`
}

// FileOut is one file on its way out of the workspace.
type FileOut struct {
	Path          string `json:"path" doc:"Relative to /workspace. Bytes that are not UTF-8 are shown as U+FFFD."`
	Size          int64  `json:"size" doc:"In bytes."`
	SHA256        string `json:"sha256" doc:"Of the content, in hexadecimal."`
	ContentBase64 []byte `json:"content_base64"`
}

// Finding is what a static check found in the code.
type Finding struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
	Line    int    `json:"line"`
}

// Usage is what a run has cost. What this host cannot tell is null.
type Usage struct {
	WallMS          *float64 `json:"wall_ms" doc:"Milliseconds from the start of the program to its end."`
	CPUMS           *float64 `json:"cpu_ms" doc:"Milliseconds of CPU, user and system, of all processes."`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes" doc:"The most memory in use at once, files in the workspace included."`
}

// Timings says where the time went, in milliseconds.
type Timings struct {
	QueueMS  float64 `json:"queue_ms" doc:"Waiting for a slot."`
	CreateMS float64 `json:"create_ms" doc:"Building the walls."`
	UploadMS float64 `json:"upload_ms" doc:"Files in."`
	RunMS    float64 `json:"run_ms" doc:"The program."`
	FilesMS  float64 `json:"files_ms" doc:"Files out."`
}

// PolicyLimits are the limits of a policy: every field is there, and what nothing enforces is null.
type PolicyLimits struct{ Limits }

// Requested is a policy as asked. The environment is left out, as it may hold secrets.
type Requested struct {
	Backend         string              `json:"backend" doc:"A name, or auto; the server's default where the request named none."`
	Image           string              `json:"image,omitempty" doc:"Whose files are to be the root; absent where the request named none."`
	Limits          PolicyLimits        `json:"limits"`
	Named           []sandbox.LimitName `json:"named" doc:"Limits that the request named; each was enforced, or let go of by allow_unenforced."`
	Network         NetworkShown        `json:"network"`
	User            UserShown           `json:"user" doc:"Who the code is to be, inside."`
	Commands        []string            `json:"commands" doc:"Programs that may be executed; null is all that the root holds."`
	AllowUnenforced []string            `json:"allow_unenforced"`
}

// NetworkShown is the network policy of a sandbox.
type NetworkShown struct {
	Mode  sandbox.NetworkMode `json:"mode" enum:"none,restricted,full"`
	Allow []string            `json:"allow"`
	Deny  []string            `json:"deny"`
}

// Effective is a policy as it was enforced.
type Effective struct {
	Kernel     sandbox.Kernel               `json:"kernel" doc:"Whose kernel served the code; empty where the run ended before there was a sandbox." enum:"shared,user-space,machine,"`
	Image      string                       `json:"image,omitempty" doc:"Whose files were the root, by name and digest."`
	Limits     PolicyLimits                 `json:"limits" doc:"null where nothing enforces a limit."`
	Enforcers  map[sandbox.LimitName]string `json:"enforcers" doc:"What enforces each limit."`
	Network    NetworkShown                 `json:"network"`
	User       UserShown                    `json:"user" doc:"Who the code was, inside."`
	HostUID    string                       `json:"host_uid" doc:"unique: a host user of its own; subordinate; shared: the user who runs Glovebox."`
	Commands   []string                     `json:"commands" doc:"Programs that may be executed; null is all that the root holds."`
	Walls      map[string]sandbox.WallState `json:"walls" doc:"State of each wall: enforced, partial or missing. GET /v1/capabilities says more."`
	Unenforced []string                     `json:"unenforced" doc:"What the request accepted to go without and the host could not do."`
	Warnings   []string                     `json:"warnings"`
}

// UserShown is a user inside a sandbox.
type UserShown struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// NewAnswer turns a result into its JSON form. Lists are never null.
func NewAnswer(r *sandbox.Result) Answer {
	out, errs := show(r.Stdout), show(r.Stderr)
	a := Answer{
		ID: r.ID, Status: r.Status,
		Stdout: out.text, StdoutBase64: out.exact, StdoutTruncated: out.truncated, StdoutDropped: out.dropped, StdoutGap: out.gap,
		Stderr: errs.text, StderrBase64: errs.exact, StderrTruncated: errs.truncated, StderrDropped: errs.dropped, StderrGap: errs.gap,
		Results:   []map[string]string{},
		Error:     r.Exception,
		Files:     filesOut(r.Files),
		Skipped:   list(r.Skipped),
		Findings:  []Finding{},
		Usage:     newUsage(r.Usage),
		Timings:   newTimings(r.Timings),
		Backend:   r.Effective.Backend,
		Requested: newRequested(r),
		Effective: newEffective(&r.Effective),

		Differences: list(r.Differences()),
		Hint:        r.Hint,
	}
	if r.ExitCode >= 0 && r.Signal == 0 {
		a.ExitCode = &r.ExitCode
	}
	if r.Signal > 0 {
		a.Signal = &r.Signal
	}
	return a
}

func filesOut(files []sandbox.File) []FileOut {
	out := make([]FileOut, len(files))
	for i, f := range files {
		sum := sha256.Sum256(f.Data)
		if f.Data == nil {
			f.Data = []byte{} // null would not be base64
		}
		out[i] = FileOut{Path: f.Path, Size: int64(len(f.Data)), SHA256: hex.EncodeToString(sum[:]), ContentBase64: f.Data}
	}
	return out
}

func newRequested(r *sandbox.Result) Requested {
	s := &r.Requested
	return Requested{
		Backend:         r.Asked,
		Image:           s.Root.Image,
		Limits:          newPolicyLimits(s.Limits),
		Named:           list(s.Named),
		Network:         newNetwork(s.Network),
		User:            UserShown(s.User),
		Commands:        s.Commands,
		AllowUnenforced: list(s.AllowUnenforced),
	}
}

func newEffective(p *sandbox.Policy) Effective {
	e := Effective{
		Kernel:     p.Kernel,
		Image:      p.Image,
		Limits:     newPolicyLimits(p.Limits),
		Enforcers:  p.Enforcers,
		Network:    newNetwork(p.Network),
		User:       UserShown(p.User),
		HostUID:    p.HostUID,
		Commands:   p.Commands,
		Walls:      make(map[string]sandbox.WallState, len(p.Walls)),
		Unenforced: list(p.Unenforced),
		Warnings:   list(p.Warnings),
	}
	if e.Enforcers == nil {
		e.Enforcers = map[sandbox.LimitName]string{}
	}
	for _, w := range p.Walls {
		e.Walls[w.Name] = w.State
	}
	return e
}

func newPolicyLimits(l sandbox.Limits) PolicyLimits {
	return PolicyLimits{newLimits(l)}
}

func newNetwork(n sandbox.NetworkPolicy) NetworkShown {
	if n.Mode == "" {
		n.Mode = sandbox.NetworkNone
	}
	return NetworkShown{Mode: n.Mode, Allow: list(n.Allow), Deny: list(n.Deny)}
}

func newUsage(u sandbox.Usage) Usage {
	var out Usage
	if u.Wall >= 0 {
		wall := millis(u.Wall)
		out.WallMS = &wall
	}
	if u.CPU >= 0 {
		cpu := millis(u.CPU)
		out.CPUMS = &cpu
	}
	if u.MemoryPeak >= 0 {
		out.PeakMemoryBytes = &u.MemoryPeak
	}
	return out
}

func newTimings(t sandbox.Timings) Timings {
	return Timings{QueueMS: millis(t.Queue), CreateMS: millis(t.Create), UploadMS: millis(t.Upload), RunMS: millis(t.Run), FilesMS: millis(t.Files)}
}

// millis is exact to a microsecond: finer digits are noise.
func millis(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }

// list is a list that is never null in JSON.
func list[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}
