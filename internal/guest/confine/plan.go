// Package confine is the set-up stage of a guest that a backend starts inside fresh namespaces: it builds the root, raises the
// walls around itself and returns once they stand. The guest is then pid 1 of the sandbox, and what it starts inherits them.
//
// The host decides everything and sends it as a Plan; nothing here chooses. A step that fails ends the guest before any code of
// the user exists, and its name goes back to the host.
package confine

import (
	"encoding/base64"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Plan is all that the set-up stage does.
type Plan struct {
	ID       string // of the sandbox
	Key      []byte // what the guest will demand on connections
	Hostname string

	// Guest is who the guest becomes, Code is whom it starts processes as. They are equal where only one id is mapped; the guest
	// then keeps no capability, otherwise CAP_SETUID, CAP_SETGID and CAP_KILL in its own user namespace.
	Guest, Code sandbox.User

	Root     []Step
	Template uint64 // the device number of the root that the guest is spawned in, to which Root only adds; 0 where it makes its root itself
	Loopback bool
	Limits   []Rlimit // of the guest and all it starts
	Payload  []Rlimit // of what it starts, over Limits

	Landlock Ruleset
	Seccomp  []byte // the program, an array of struct sock_filter

	OneShot bool  // ends when the host lets go of its lifeline
	Lease   int64 // nanoseconds; for sandboxes that are not one-shot

	// Execute, where it has paths, makes of the process a zygote: no guest of a sandbox, but a program that waits to be forked into
	// some. Of the rest of the plan only Root and Limits count.
	Execute Program

	// MakeTemplate makes of the process no guest either, but what makes such a root. Of the plan only Root counts.
	MakeTemplate bool

	Container // of a guest that a container runtime starts; elsewhere it is zero

	// FailAt names a step that shall fail, for the test that walks through all of them.
	FailAt string
}

// Container is what a guest does for itself that a container runtime started in walls of the runtime's making.
type Container struct {
	Listen  string // where it makes its socket; elsewhere a guest is spawned with one
	Filter  Filter // where Seccomp is empty
	Threads int    // how many threads it has at least before it serves, so that a bound of processes counts no fewer
	Visited bool   // the host comes by bridges: processes that the runtime starts beside the guest
}

// EnvPlan is where a guest finds its plan, in base64, that a container runtime starts in walls of its making. The code never sees
// it: the guest's environment is the guest's, which nobody inside may read.
const EnvPlan = "GLOVEBOX_PLAN"

// Encode returns the plan as EnvPlan has it.
func (p *Plan) Encode() string { return base64.StdEncoding.EncodeToString(p.Append(nil)) }

// StartLease is how long a one-shot guest in a container waits for its lifeline.
const StartLease = 30 * time.Second

// BridgeArg, before the path of a guest's socket, is the one argument of a guest program that shall not be a guest but a bridge: what it
// reads from stdin goes to the socket, what comes from there to stdout.
const BridgeArg = "--bridge="

// Filter has the guest compile the policy of system calls itself, as the host may be of another kind than the machine the guest is on.
type Filter uint8

// The filters, to be added to FilterPlain. Without one, and without Plan.Seccomp, there is only the runtime's.
const (
	FilterPlain        Filter = 1 << iota
	FilterHostWritable        // seccomp.Options.HostWritable
	FilterNested              // seccomp.Options.NestedFilters
)

// Program is what a zygote executes: the first of the paths that exists.
type Program struct{ Paths, Argv, Env []string }

// Step is one step of building the root. Targets are relative to the new root and are resolved below it without following links.
type Step struct {
	Do     Action
	Target string
	Source string // Bind: path as the host sees it; Symlink: what it points to; File: its content
	FD     int32  // Bind: index of a detached mount that came with the plan, where Source is ""
	Mode   uint32 // Dir, File: permission bits; Tmpfs: those of its root; Devpts: those of ptmx, by which terminals are made
	UID    uint32 // Dir: owner; 0 is the guest
	GID    uint32
	Size   int64 // Tmpfs: bytes
	Inodes int64 // Tmpfs
	Flags  Flags
}

// Action is what a step does.
type Action uint8

// The actions.
const (
	Dir     Action = iota + 1 // make a folder
	Symlink                   // make a link
	File                      // make a file of the new root's own
	Bind                      // attach a host file or folder, with its mounts
	Device                    // attach a device node of the host, after checking that it is the character device Size says
	Tmpfs                     // attach an empty file system in memory
	Proc                      // attach /proc of the new pid namespace
	Devpts                    // attach a devpts of its own
	Mask                      // hide a file or folder, where it exists, behind Source, which is relative too
	Inner                     // attach a folder of the new root a second time: Source is that folder, relative too
	Detach                    // take away what is attached at Target
)

// Flags are properties of a step's mount.
type Flags uint8

// The flags. All mounts are nosuid and nodev but those of devices.
const (
	Writable Flags = 1 << iota
	NoExec
	Optional // a missing source is no error: the step is left out
	NoLinks  // Bind: a source whose path has a link in it is an error
)

// Rlimit is one resource limit.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Ruleset is what Landlock denies. The zero value is no Landlock.
type Ruleset struct {
	Handled uint64 // LANDLOCK_ACCESS_FS_* bits that are denied but where granted
	Scoped  uint64 // LANDLOCK_SCOPE_* bits
	Flags   uint32 // LANDLOCK_RESTRICT_SELF_* bits
	Grants  []Access
}

// Access grants Landlock rights below a path of the new root. A path that does not exist is left out.
type Access struct {
	Path   string
	Rights uint64 // LANDLOCK_ACCESS_FS_* bits
}

// The names of the steps, as errors and failpoints have them. A step of the root is StepRoot with its target behind a space.
const (
	StepPlan      = "read plan"
	StepIdentity  = "take identity"
	StepPrivate   = "make mounts private"
	StepKnobs     = "open kernel knobs"
	StepSources   = "open sources"
	StepHidden    = "make the hidden mount" // of a template
	StepNewRoot   = "make new root"
	StepRoot      = "build root"
	StepSealRoot  = "seal new root"
	StepPivot     = "pivot root"
	StepHostname  = "set host name"
	StepLoopback  = "raise loopback"
	StepNesting   = "forbid nested namespaces"
	StepWatches   = "bound watchers"
	StepRlimits   = "set rlimits"
	StepNoNewPriv = "set no_new_privs"
	StepLandlock  = "restrict by landlock"
	StepCaps      = "drop capabilities"
	StepSpawner   = "confine spawner"
	StepSeccomp   = "install seccomp"
	StepExecute   = "execute zygote"
)

// Steps lists the steps in their order, for the test that fails each.
var Steps = []string{StepPlan, StepKnobs, StepPrivate, StepSources, StepIdentity, StepNewRoot, StepRoot, StepSealRoot, StepPivot,
	StepHostname, StepLoopback, StepNesting, StepWatches, StepRlimits, StepLandlock, StepSpawner, StepCaps, StepNoNewPriv, StepSeccomp}

// Failure is a step that failed.
type Failure struct {
	Step  string
	Errno uint32
	Msg   string
}

func (f *Failure) Error() string { return f.Step + ": " + f.Msg }
