package api

import (
	"cmp"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// SandboxRequest is the body of POST /v1/sandboxes.
type SandboxRequest struct {
	// Unique among the caller's living sandboxes. 1 to 63 of a-z, 0-9 and ._- with a letter or digit at both ends.
	Name string `json:"name,omitempty" example:"work"`
	// What to do if a sandbox of this name exists: answer with it (use), which changes nothing, or with 409 (fail).
	IfExists string `json:"if_exists,omitempty" enum:"use,fail" example:"fail"`
	Isolation
	Lifetime Lifetime          `json:"lifetime,omitzero"`           // When the sandbox ends by itself.
	Env      map[string]string `json:"env,omitempty" max:"1024"`    // Environment variables of all its runs.
	Metadata map[string]string `json:"metadata,omitempty" max:"64"` // Your own strings, to list by.
	// Packages that are installed when the answer comes: NAME for python, LANGUAGE:NAME for others, with versions.
	Packages []string `json:"packages,omitempty" max:"500" example:"javascript:lodash@4"`
	// Allow packages to run their own code while they are installed: source distributions, install scripts.
	AllowBuild bool `json:"allow_build,omitempty"`
	// policy: return the policy even if it is enforced as requested. Other sections have no effect.
	Include []Section `json:"include,omitempty" max:"16"`
}

// SandboxPatch is the body of PATCH /v1/sandboxes/{id}. Absent fields keep their values.
type SandboxPatch struct {
	Lifetime Lifetime          `json:"lifetime,omitzero"`          // When the sandbox ends by itself.
	Metadata map[string]string `json:"metadata,omitzero" max:"64"` // Replaces all metadata.
	// New limits: timeout_s and output_kib of later runs, and memory_mib and cpus, on native and gvisor. Programs that
	// run already keep the sizes that they derived from the old limits. The other limits are fixed.
	Limits Limits `json:"limits,omitzero"`
	// Replaces all network rules of a sandbox that was created with a network. Open connections that the new rules
	// refuse are reset.
	Network *Network `json:"network,omitempty"`
}

// Lifetime says when a living sandbox ends by itself. Give at most one of ends_at and ends_in_s.
type Lifetime struct {
	// Seconds without a run or another call; 0 is never. The default is 1800.
	IdleS *float64 `json:"idle_s,omitempty" example:"3600"`
	// When it ends in any case. The default is 24 hours after its creation.
	EndsAt time.Time `json:"ends_at,omitzero"`
	// Seconds from now, in place of ends_at.
	EndsInS *float64 `json:"ends_in_s,omitempty" over:"0" example:"86400"`
}

// Sandbox is a living sandbox: one that outlives its runs.
type Sandbox struct {
	ID         sandbox.ID        `json:"id"`
	Name       string            `json:"name,omitempty"`
	Owner      string            `json:"owner,omitempty"` // Name of the API key that created it; absent without keys.
	State      sandbox.State     `json:"state"`
	Backend    string            `json:"backend"` // The backend that isolates it.
	CreatedAt  time.Time         `json:"created_at"`
	UsedAt     time.Time         `json:"used_at"`               // When the last run ended, or another call came.
	IdleEndsAt time.Time         `json:"idle_ends_at,omitzero"` // When it ends unless it is used; absent during a run.
	Running    int               `json:"running"`               // Runs in progress.
	Contexts   []Context         `json:"contexts"`
	Metadata   map[string]string `json:"metadata"`
	Lifetime   Lifetime          `json:"lifetime"`
	Limits     Limits            `json:"limits"` // null: not enforced.
	Network    Network           `json:"network"`
	// The requested and the enforced policy: present if they differ, or if include names it.
	Policy *Policy `json:"policy,omitempty"`
	// In the answer to a creation: a sandbox of this name existed, and is unchanged.
	Existing bool `json:"existing,omitempty"`
	// The settings of the request that an existing sandbox does not have. Values of variables are omitted.
	Differences []sandbox.Difference `json:"differences,omitempty"`
}

// NameOrID returns the sandbox's name, or its id if it has none.
func (s *Sandbox) NameOrID() string {
	return cmp.Or(s.Name, string(s.ID))
}

// SandboxList is the answer to GET /v1/sandboxes.
type SandboxList struct {
	Sandboxes []Sandbox `json:"sandboxes"` // The oldest first.
	More      bool      `json:"more"`      // Whether there are more; pass the id of the last one as after.
}

// SandboxUsage has the resources that a living sandbox uses. null: this host cannot measure it.
type SandboxUsage struct {
	WallMS          float64  `json:"wall_ms"`      // Milliseconds since its creation.
	CPUMS           *float64 `json:"cpu_ms"`       // Milliseconds of CPU, user and system, of all its processes so far.
	MemoryBytes     *int64   `json:"memory_bytes"` // Memory now, with the files in the workspace.
	PeakMemoryBytes *int64   `json:"peak_memory_bytes"`
	Pids            *int64   `json:"pids"`         // Processes and threads now.
	OOMKills        *int64   `json:"oom_kills"`    // Processes killed for lack of memory.
	PidsRefused     *int64   `json:"pids_refused"` // Processes and threads that the kernel refused at the limit.
}

// Run is a run in a living sandbox.
type Run struct {
	ID         sandbox.ID     `json:"id"`
	Context    string         `json:"context,omitempty"`  // Name of the context of code.
	Language   string         `json:"language,omitempty"` // Language of code and entries.
	Command    []string       `json:"command,omitempty"`
	Status     sandbox.Status `json:"status"`
	ExitCode   *int           `json:"exit_code,omitempty"` // Absent during the run, after a signal, or if nothing ran.
	BeganAt    time.Time      `json:"began_at"`
	DeadlineAt time.Time      `json:"deadline_at,omitzero"` // When it times out; absent: no limit.
	// It continues without its client: in the background or as a stream.
	Background bool              `json:"background"`
	Metadata   map[string]string `json:"metadata,omitempty"` // Of the request; after its end, up to 1 KiB.
	// What a model should see of it so far, if the query has text=1.
	Text string `json:"text,omitempty"`
}

// RunList is the answer to GET /v1/sandboxes/{id}/runs.
type RunList struct {
	Runs []Run `json:"runs"` // All in progress, and the last that ended; the oldest first.
}

// Context is an interpreter that keeps its variables between runs.
type Context struct {
	// Id of the interpreter. A restart assigns a new one; older ids still find the context. Absent before the first
	// run.
	ID       sandbox.ID `json:"id,omitempty"`
	Name     string     `json:"name"`
	Language string     `json:"language"`
	Dir      string     `json:"dir"` // Its first working directory.
	// new: no interpreter yet; ended: the next run starts one.
	State     string    `json:"state" enum:"new,idle,busy,ended"`
	Waiting   int       `json:"waiting"` // Runs that wait for their turn.
	Runs      uint64    `json:"runs"`    // Runs so far.
	CreatedAt time.Time `json:"created_at"`
}

// ContextRequest is the body of POST /v1/sandboxes/{id}/contexts.
type ContextRequest struct {
	// Unique in the sandbox; the same form as a sandbox's name. The default is a new name.
	Name     string `json:"name,omitempty" example:"plots"`
	Language string `json:"language,omitempty" example:"python"` // Name or alias of a language. The default is python.
	Dir      string `json:"dir,omitempty"`                       // Working directory. The default is /workspace.
	// Environment variables of its interpreter, besides those of the sandbox.
	Env map[string]string `json:"env,omitempty" max:"1024"`
	// Functions of the client that code of each run can call, besides the tools of the run. Only runs whose events are
	// read have them: with Accept: text/event-stream, or background.
	Tools      []Tool      `json:"tools,omitempty" max:"64"`
	CallLimits *CallLimits `json:"call_limits,omitempty"` // Limits of the calls of a run that has none.
}

// ContextList is the answer to GET /v1/sandboxes/{id}/contexts.
type ContextList struct {
	Contexts []Context `json:"contexts"`
}

// CompleteRequest is the body of POST /v1/sandboxes/{id}/contexts/{context}/complete.
type CompleteRequest struct {
	Code string `json:"code" required:"true" example:"import ma"` // Source text.
	// Byte offset in the UTF-8 of the code. The default is its end.
	Cursor *int `json:"cursor,omitempty" example:"9"`
}

// Completion lists the names that fit at a cursor.
type Completion struct {
	Start int      `json:"start"` // Byte offset; each name replaces the code from here to the cursor.
	Names []string `json:"names"`
}
