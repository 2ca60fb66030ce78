package fumehood

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/toolcall"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Create requests a living sandbox: one that keeps files, processes and variables between runs.
type Create struct {
	Name    string       // 1 to 63 of a-z, 0-9 and ._-; "" is no name
	Backend string       // as in OneShot
	Spec    sandbox.Spec // zero fields get the defaults
	Ends    Ends
}

// Ends says when a living sandbox ends by itself. A zero field means the default in Create, and no change in Update.
type Ends struct {
	Idle *time.Duration // after this long without use; 0 is never. The default is 30 minutes
	At   time.Time      // at this time. The default is 24 hours from the creation
	In   time.Duration  // this long from now, in place of At
}

// Sandbox is a living sandbox. Its methods are safe for concurrent use. After its end they return NotFound with the
// reason. Paths of files are absolute, or relative to the workspace.
type Sandbox struct{ sandbox *engine.Sandbox }

// ID returns the sandbox's id.
func (s *Sandbox) ID() sandbox.ID { return s.sandbox.ID() }

// Name returns the sandbox's name, or "".
func (s *Sandbox) Name() string { return s.sandbox.Name() }

// Run runs one request and returns its result. If ctx ends first, the status is sandbox.StatusCanceled.
func (s *Sandbox) Run(ctx context.Context, r Request) (*sandbox.Result, error) {
	return s.sandbox.Run(ctx, r.engineRequest())
}

// Start starts a run. The end of ctx cancels it, unless it is a background run.
func (s *Sandbox) Start(ctx context.Context, r Request) (*Run, error) {
	run, err := s.sandbox.Start(ctx, r.engineRequest())
	if err != nil {
		return nil, err
	}
	return &Run{run}, nil
}

// FindRun finds a run by its id: one that runs, or one of the last 100 that ended.
func (s *Sandbox) FindRun(id sandbox.ID) (*Run, error) {
	run, err := s.sandbox.FindRun(id)
	if err != nil {
		return nil, err
	}
	return &Run{run}, nil
}

// Runs lists the runs in progress and the last 100 that ended, the oldest first.
func (s *Sandbox) Runs() []RunInfo {
	var list []RunInfo
	for _, i := range s.sandbox.Runs() {
		list = append(list, runInfo(i))
	}
	return list
}

// NewTool returns the tool of a function, for Request.Calls. Its schema is that of In, a struct with the names of
// encoding/json.
func NewTool[In any](name, description string, call func(context.Context, In) (any, error)) (sandbox.Tool, error) {
	return toolcall.New(name, description, call)
}

// CreateContext makes a context and starts its interpreter. A language is a name or an alias, "" is Python; dir is the
// working directory, "" is the workspace. Code of all its runs can call the tools.
func (s *Sandbox) CreateContext(
	ctx context.Context, name, language, dir string, tools ...sandbox.Tool,
) (*Context, error) {
	c, err := s.sandbox.CreateContext(ctx, engine.ContextRequest{Name: name, Language: language, Dir: dir,
		Calls: sandbox.Calls{Tools: tools}})
	if err != nil {
		return nil, err
	}
	return &Context{c}, nil
}

// Context finds a context by its name or id.
func (s *Sandbox) Context(name string) (*Context, error) {
	c, err := s.sandbox.Context(name)
	if err != nil {
		return nil, err
	}
	return &Context{c}, nil
}

// Stat describes a file. It follows a symbolic link.
func (s *Sandbox) Stat(ctx context.Context, file string) (sandbox.FileInfo, error) {
	return s.sandbox.Stat(ctx, file)
}

// ReadFile copies length bytes of a regular file from offset to w; a length of 0 reads to its end.
func (s *Sandbox) ReadFile(
	ctx context.Context, file string, offset, length int64, w io.Writer,
) (sandbox.FileInfo, error) {
	return s.sandbox.ReadFile(ctx, file, offset, length, w)
}

// WriteFile writes a regular file atomically and makes the folders above it. A mode of 0 is 0644. It is TooLarge where
// the disk limit is reached.
func (s *Sandbox) WriteFile(ctx context.Context, file string, mode uint32, r io.Reader) error {
	return s.sandbox.WriteFile(ctx, file, mode, r)
}

// ListFiles lists a folder to a depth of at least 1, at most limit entries; 0 is 10,000. more reports whether there are
// others.
func (s *Sandbox) ListFiles(
	ctx context.Context, folder string, depth, limit int,
) (list []sandbox.FileInfo, more bool, err error) {
	return s.sandbox.ListFiles(ctx, folder, depth, limit)
}

// MakeFolder makes a folder and the folders above it. An existing folder is no error.
func (s *Sandbox) MakeFolder(ctx context.Context, folder string) error {
	return s.sandbox.MakeFolder(ctx, folder)
}

// MoveFile renames a file or folder. It is Exists if there is one at the target and replace is false.
func (s *Sandbox) MoveFile(ctx context.Context, from, to string, replace bool) error {
	return s.sandbox.MoveFile(ctx, from, to, replace)
}

// RemoveFile removes a file or an empty folder; with recursive, a folder with its content.
func (s *Sandbox) RemoveFile(ctx context.Context, file string, recursive bool) error {
	return s.sandbox.RemoveFile(ctx, file, recursive)
}

// Clean empties the workspace. A workspace that is a directory of the host requires force.
func (s *Sandbox) Clean(ctx context.Context, force bool) error { return s.sandbox.Clean(ctx, force) }

// DialPort connects to a TCP port on which a program in the sandbox listens. The sandbox needs no network for it.
func (s *Sandbox) DialPort(ctx context.Context, port int) (net.Conn, error) {
	return s.sandbox.DialPort(ctx, port)
}

// Network returns the network policy and the log of connection attempts. It is Unsupported without a network.
func (s *Sandbox) Network() (sandbox.NetworkPolicy, sandbox.NetworkLog, error) {
	return s.sandbox.Network()
}

// Usage returns the resources that the sandbox has used, as the host counts them.
func (s *Sandbox) Usage(ctx context.Context) (sandbox.Usage, error) { return s.sandbox.Stats(ctx) }

// Update changes the sandbox.
func (s *Sandbox) Update(u Update) error {
	return s.sandbox.Update(engine.Patch{Metadata: u.Metadata, Ends: engine.Ends(u.Ends), Network: u.Network})
}

// Update is a change of a living sandbox. A nil field changes nothing.
type Update struct {
	Metadata map[string]string // replaces all metadata
	Ends     Ends
	Network  *sandbox.NetworkPolicy
}

// Ended returns why the sandbox has ended, as a NotFound error, or nil.
func (s *Sandbox) Ended() error { return s.sandbox.Ended() }

// Close ends the sandbox, cancels its runs, and waits until all of it is removed.
func (s *Sandbox) Close() error { return s.sandbox.Close() }

// Info describes the sandbox now.
func (s *Sandbox) Info() SandboxInfo {
	i := s.sandbox.Info()
	out := SandboxInfo{ID: i.ID, Name: i.Name, Backend: i.Backend, Created: i.Created, Used: i.Used,
		IdleEnds: i.IdleEnds, EndsAt: i.Spec.Lifetime.EndsAt, State: i.State, Running: i.Running, Spec: i.Spec,
		Effective: i.Effective}
	for _, c := range i.Contexts {
		out.Contexts = append(out.Contexts, contextInfo(c))
	}
	return out
}

// SandboxInfo describes a living sandbox.
type SandboxInfo struct {
	ID        sandbox.ID
	Name      string
	Backend   string
	Created   time.Time
	Used      time.Time // end of the last run, or the last call
	IdleEnds  time.Time // when the sandbox ends unless it is used; zero while something runs
	EndsAt    time.Time // when it ends in any case
	State     sandbox.State
	Running   int // runs in progress
	Contexts  []ContextInfo
	Spec      sandbox.Spec   // the requested configuration
	Effective sandbox.Policy // the enforced configuration
}
