// Package confine is the set-up stage of a guest that a backend starts in new namespaces: it builds the root, confines
// its own process and returns. The guest is then pid 1 of the sandbox, and its children inherit the confinement.
//
// The host sends all decisions as a Plan. A failing step ends the guest before any user code exists, and the guest
// reports its name to the host.
package confine

import (
	"encoding/base64"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Plan is the input of the set-up stage.
type Plan struct {
	ID       string // of the sandbox
	Key      []byte // the guest demands it on connections
	Hostname string

	// Guest is the guest's user, Code that of the processes it starts. They are equal if only one id is mapped; the
	// guest then keeps no capability, otherwise CAP_SETUID, CAP_SETGID and CAP_KILL in its own user namespace.
	Guest, Code sandbox.User

	// Builder makes the first mount that came with the plan the whole root, which stays writable. The code's user 0 is
	// root in it: it keeps BuilderCaps. Root only adds the kernel's file systems.
	Builder bool

	Root     []Step
	Template uint64 // device number of the template root that Root adds to; 0 if the guest makes its own root
	Loopback bool
	Limits   []Rlimit // for the guest and everything it starts
	Payload  []Rlimit // for what it starts, overriding Limits

	Landlock Ruleset
	Seccomp  []byte // the program, an array of struct sock_filter

	OneShot bool  // ends when the host closes its lifeline
	Lease   int64 // nanoseconds; for sandboxes that are not one-shot

	// Execute, if it has paths, makes the process a zygote instead of a guest: a program that waits to be forked into
	// sandboxes. Only Root and Limits apply then.
	Execute Program

	// MakeTemplate makes the process build a template root instead. Only Root applies then.
	MakeTemplate bool

	Container // for guests that a container runtime starts; else zero

	// FailAt names a step to fail, for the test of all steps.
	FailAt string
}

// Container configures a guest that a container runtime has already isolated.
type Container struct {
	Listen  string // path of the socket to make; other guests inherit one
	Filter  Filter // used if Seccomp is empty
	Threads int    // minimum number of threads before the guest serves: the process limit counts them
	Visited bool   // the host connects by bridges, processes that the runtime starts beside the guest
	// bytes for the code's processes and in-memory files, where the container has a kernel of its own: the guest kills
	// the largest process beyond them; 0 is no limit
	Memory uint64
}

// EnvPlan holds the plan, in base64, of a guest that a container runtime starts. The code never sees it: nothing inside
// may read the guest's environment.
const EnvPlan = "FUMEHOOD_PLAN"

func (p *Plan) Encode() string { return base64.StdEncoding.EncodeToString(p.Append(nil)) }

// StartLease is how long a one-shot guest in a container waits for its lifeline.
const StartLease = 30 * time.Second

// BridgeArg, followed by the path of a guest's socket, as the only argument makes the guest program a bridge, which
// copies stdin to the socket, and the socket to stdout.
const BridgeArg = "--bridge="

// Filter makes the guest compile the system call policy itself, as the host may have another processor or system.
type Filter uint8

// Options, added to FilterPlain. With neither them nor Plan.Seccomp, only the runtime's filter applies.
const (
	FilterPlain        Filter = 1 << iota
	FilterHostWritable        // seccomp.Options.HostWritable
	FilterNested              // seccomp.Options.NestedFilters
)

// Program is a program for a zygote: the first existing path is executed.
type Program struct{ Paths, Argv, Env []string }

// Step is one step of building the root. Targets are relative to the new root, and resolved below it without following
// links.
type Step struct {
	Do     Action
	Target string
	Source string // Bind: path on the host; Symlink: its target; File: its content
	FD     int32  // Bind, if Source is "": index of a detached mount that came with the plan
	Mode   uint32 // Dir, File: permission bits; Tmpfs: its root's; Devpts: those of ptmx, which makes terminals
	UID    uint32 // Dir: owner; 0 is the guest
	GID    uint32
	Size   int64 // Tmpfs: bytes
	Inodes int64 // Tmpfs
	Flags  Flags
}

// Action is what a step does.
type Action uint8

const (
	Dir     Action = iota + 1 // make a folder
	Symlink                   // make a link
	File                      // make a file in the new root itself
	Bind                      // attach a host file or folder, with its mounts
	Device                    // attach a host device node, after checking that its device number is Size
	Tmpfs                     // attach an empty file system in memory
	Proc                      // attach /proc of the new pid namespace
	Devpts                    // attach a new devpts
	Mask                      // cover an existing file or folder with Source, which is also relative
	Inner                     // attach the new root's folder Source, also relative, a second time
	Detach                    // unmount Target
	Remove                    // remove the empty folder Target
)

// Flags are properties of a step's mount.
type Flags uint8

// The flags. All mounts except devices are nosuid and nodev.
const (
	Writable Flags = 1 << iota
	NoExec
	Optional // skip the step if the source is missing
	NoLinks  // Bind: a link in the source's path is an error
)

type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Ruleset is what Landlock denies. The zero value disables Landlock.
type Ruleset struct {
	Handled uint64 // LANDLOCK_ACCESS_FS_* bits that are denied unless granted
	Scoped  uint64 // LANDLOCK_SCOPE_* bits
	Flags   uint32 // LANDLOCK_RESTRICT_SELF_* bits
	Grants  []Access
}

// Access grants Landlock rights below a path of the new root. A missing path is skipped.
type Access struct {
	Path   string
	Rights uint64 // LANDLOCK_ACCESS_FS_* bits
}

// Names of steps, in errors and failpoints. A step of the root is StepRoot, a space and its target.
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

// Steps lists the steps in order, for the test that fails each.
var Steps = []string{StepPlan, StepKnobs, StepPrivate, StepSources, StepIdentity, StepNewRoot, StepRoot, StepSealRoot,
	StepPivot, StepHostname, StepLoopback, StepNesting, StepWatches, StepRlimits, StepLandlock, StepSpawner, StepCaps,
	StepNoNewPriv,
	StepSeccomp}

type Failure struct {
	Step  string
	Errno uint32
	Msg   string
}

func (f *Failure) Error() string { return f.Step + ": " + f.Msg }
