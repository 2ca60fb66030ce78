package sandbox

import (
	"fmt"
	"time"
)

// Spec is all that is asked of a sandbox before it exists: a plain value, complete once the engine has filled its defaults.
// Two sandboxes with equal specs (ID and Labels aside) are interchangeable, which is what a pool of warm boxes relies on.
type Spec struct {
	ID        ID
	Root      Root
	Layers    []Layer
	Mounts    []Mount
	Workspace string // host directory that is /workspace, read-write, without links in its path; "" is a bounded tmpfs
	Limits    Limits // every field filled
	Named     []LimitName
	Network   NetworkPolicy
	Env       []string // "NAME=value"; the whole environment of every execution, nothing is inherited
	User      User
	Devices   []string // host device nodes; every backend may refuse them
	Commands  []string // programs that may be executed; nil allows all that the root holds
	// NestedFilters lets the code confine itself further, by seccomp filters and Landlock rules of its own, as browsers do. The kernel's
	// memory for them is in no limit, and all of the host has one bound for it.
	NestedFilters bool
	// Terminals lets the code open pseudo-terminals of its own, as pexpect and tmux do. On native the kernel's threads echo what is typed
	// there, and no limit of CPU counts their work. Executions have terminals without it.
	Terminals bool
	Lifetime  Lifetime
	Labels    map[string]string
	// AllowUnenforced names what the caller lets go of, of Waivable, where the host cannot keep it.
	AllowUnenforced []string
}

// Waives says whether the caller let go of the named wall or limit.
func (s *Spec) Waives(name string) bool {
	for _, n := range s.AllowUnenforced {
		if n == name {
			return true
		}
	}
	return false
}

// IsNamed says whether the caller asked for this limit by name, so that it must be enforced or refused.
func (s *Spec) IsNamed(name LimitName) bool {
	for _, n := range s.Named {
		if n == name {
			return true
		}
	}
	return false
}

// HostWritable says whether the code may write to a directory of the host.
func (s *Spec) HostWritable() bool {
	for _, m := range s.Mounts {
		if m.Writable {
			return true
		}
	}
	return s.Workspace != ""
}

// Root says what / is made of. The zero value is the host's own system directories, read-only.
type Root struct {
	Dir   string // a directory that holds a root file system; read-only
	Image string // an OCI image reference
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
}

// User is who the code is inside the sandbox.
type User struct{ UID, GID uint32 }

func (u User) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// DefaultUser is the user of a sandbox that asks for none.
var DefaultUser = User{UID: 1000, GID: 1000}

// Lifetime says when a sandbox ends by itself. The zero value is a one-shot sandbox: it ends with its execution and dies
// with its server.
type Lifetime struct {
	Living bool          // outlives its executions and a restart of the server
	Idle   time.Duration // ends after this long without an execution; 0 is never
	MaxAge time.Duration // ends at this age; 0 is never
	Lease  time.Duration // the guest ends the sandbox when no server renews the lease for this long; 0 is DefaultLease
}

// DefaultLease is how long a living sandbox waits for its server to come back.
const DefaultLease = 10 * time.Minute

// GuestLease is the lease that the guest of the sandbox is spawned with; 0 is none.
func (l Lifetime) GuestLease() time.Duration {
	switch {
	case !l.Living:
		return 0
	case l.Lease > 0:
		return l.Lease
	}
	return DefaultLease
}

// NetworkMode says how far the network of a sandbox reaches.
type NetworkMode string

// The network modes. The zero value means NetworkNone.
const (
	NetworkNone       NetworkMode = "none"       // loopback only
	NetworkRestricted NetworkMode = "restricted" // what is listed in Allow
	NetworkFull       NetworkMode = "full"       // the internet, never the host or private ranges unless listed
)

// NetworkPolicy is what a sandbox may reach.
type NetworkPolicy struct {
	Mode           NetworkMode
	Allow          []string
	Deny           []string
	MaxConnections int
	Inspect        []string
}

// Paths every sandbox has, whatever its root.
const (
	Workspace = "/workspace"  // the working directory, the one place whose files are handed back
	Home      = "/home/agent" // HOME: writable, bounded by the disk limit
)

// DefaultEnv is the environment of an execution that asks for none. PYTHONDONTWRITEBYTECODE keeps __pycache__ out of the
// files handed back.
var DefaultEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=" + Home,
	"USER=agent",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
	"PYTHONDONTWRITEBYTECODE=1",
}
