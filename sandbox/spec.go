package sandbox

import (
	"fmt"
	"time"
)

// Spec is everything requested of a sandbox before it exists: a plain value, complete once the engine has filled in the
// defaults. Two sandboxes whose specs differ only in ID and Metadata are interchangeable; the pool of warm boxes relies
// on it.
type Spec struct {
	ID        ID
	Root      Root
	Layers    []Layer
	Mounts    []Mount
	Volumes   []Volume
	Workspace string // host directory that is /workspace, read-write, without links in its path; "" is a bounded tmpfs
	Limits    Limits // every field filled
	Named     []LimitName
	Network   NetworkPolicy
	Env       []string // "NAME=value"; the whole environment of every run, nothing is inherited
	User      User
	Devices   []string // host device nodes; every backend may refuse them
	Commands  []string // programs that may be executed; nil allows every program in the root
	// NestedFilters lets the code install its own seccomp filters and Landlock rules, as browsers do. No limit covers
	// the kernel memory for them, and the whole host shares one bound.
	NestedFilters bool
	// Terminals lets the code create pseudo-terminals, which pexpect and tmux need. On native, kernel threads echo
	// their input, and no limit of CPU counts that work. A run's own terminal does not need it.
	Terminals bool
	Lifetime  Lifetime
	Metadata  map[string]string
	// AllowUnenforced names members of Waivable that need not be enforced where the host cannot.
	AllowUnenforced []string

	// StandingWaivers are those of AllowUnenforced that the operator's configuration has for every sandbox. Answers
	// report what they waive on request.
	StandingWaivers []string
}

// Waives reports whether the caller waived the named layer or limit.
func (s *Spec) Waives(name string) bool {
	for _, n := range s.AllowUnenforced {
		if n == name {
			return true
		}
	}
	return false
}

// IsNamed reports whether the caller named this limit, so that it must be enforced or refused.
func (s *Spec) IsNamed(name LimitName) bool {
	for _, n := range s.Named {
		if n == name {
			return true
		}
	}
	return false
}

// HostWritable reports whether the code can write to a directory of the host, or to a named volume.
func (s *Spec) HostWritable() bool {
	for _, m := range s.Mounts {
		if m.Writable {
			return true
		}
	}
	for _, v := range s.Volumes {
		if v.Name != "" && !v.ReadOnly {
			return true
		}
	}
	return s.Workspace != ""
}

// Unbounded reports whether the code can write to a directory of the host without a limit.
func (s *Spec) Unbounded() bool {
	for _, m := range s.Mounts {
		if m.Writable && m.Open == nil {
			return true
		}
	}
	return s.Workspace != ""
}

// Root is the root file system. The zero value is the host's own system directories, read-only.
type Root struct {
	Dir   string // a directory that holds a root file system; read-only
	Image string // an OCI image reference

	// Writable makes the sandbox a builder: its code may change the whole root, and uid 0 in it is root. The changes
	// are in memory, within the limits of disk and inodes; Changed returns them. Dir and Image stay as they are.
	Writable bool

	// The engine sets these from the image (Image).
	Digest   string // of its content
	Settings string // hash of what its programs see besides: variables, user and working directory
	Start    *Start // what the sandbox starts with; nil is nothing
	WorkDir  string // working directory of commands; "" is Workspace
	Note     string // what of its configuration has no effect; "" is nothing
}

// Layer is a read-only, content-addressed directory of installed dependencies.
type Layer struct {
	Digest string
	Dir    string // on the host, without links in its path
	At     string // absolute path in the sandbox
}

// Mount makes a host file or directory visible in the sandbox.
type Mount struct {
	Source   string // absolute host path, of which no element is a symbolic link
	Target   string // absolute path in the sandbox
	Writable bool

	// Volume is the name of the named volume that is mounted. The code owns its files, also of a read-only mount.
	Volume string `json:",omitempty"`
	// Open, if set, returns a new detached mount (fsmount(2)) in place of Source, which the caller closes.
	Open func() (fd int, err error) `json:"-"`
}

// User is the user of the code inside the sandbox.
type User struct{ UID, GID uint32 }

func (u User) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// DefaultUser is the user of a default request.
var DefaultUser = User{UID: 1000, GID: 1000}

// Lifetime defines when a sandbox ends by itself. The zero value is a one-shot sandbox, which ends with its run or its
// server.
type Lifetime struct {
	Living bool          // outlives its runs and a restart of the server
	Idle   time.Duration // ends after this long without use; 0 is never
	EndsAt time.Time     // ends at this time; zero is never
	// the guest ends the sandbox when no server has renewed the lease for this long; 0 is DefaultLease
	Lease time.Duration
}

// DefaultLease is how long a living sandbox survives without its server.
const DefaultLease = 10 * time.Minute

// GuestLease is the lease that the guest starts with; 0 is none.
func (l Lifetime) GuestLease() time.Duration {
	switch {
	case !l.Living:
		return 0
	case l.Lease > 0:
		return l.Lease
	}
	return DefaultLease
}

// Paths every sandbox has, whatever its root.
const (
	Workspace = "/workspace"  // the working directory, the one place whose files are handed back
	Home      = "/home/agent" // HOME: writable, bounded by the disk limit

	// WorkspaceAlias is the workspace at the path that programs for E2B use: a second mount, on the backends that make
	// the root themselves (native, gvisor), unless a host directory is the workspace.
	WorkspaceAlias = "/home/user"
)

// DefaultEnv is the environment of a default request. PATH ends with the folder in which installers put programs of the
// user. PYTHONDONTWRITEBYTECODE keeps __pycache__ out of the returned files.
var DefaultEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin:" + Home + "/.local/bin",
	"HOME=" + Home,
	"USER=agent",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
	"PYTHONDONTWRITEBYTECODE=1",
}
