package sandbox

// Kernel is the kind of kernel that serves the code's system calls.
type Kernel string

// The kinds of kernel, weakest isolation first.
const (
	KernelShared    Kernel = "shared"     // the host's own
	KernelUserSpace Kernel = "user-space" // a kernel written in a safe language, in a confined process
	KernelMachine   Kernel = "machine"    // a virtual machine's
)

// Policy is the enforced configuration of a sandbox, as its backend reports it.
type Policy struct {
	Backend    string
	Requested  string // the requested backend, in a result: a name, "auto", or the default if none was requested
	Kernel     Kernel
	Image      string               // of the root: its name and digest; "" where the root is not an image
	Limits     Limits               // Unlimited where nothing enforces the limit
	Enforcers  map[LimitName]string // what enforces each limit: "cgroup v2 memory.max", "RLIMIT_NPROC"
	Network    NetworkPolicy
	User       User
	HostUID    string   // "unique": this sandbox's alone; "subordinate"; "shared": the caller's
	Commands   []string // nil: every program in the root
	Walls      []Wall
	Unenforced []string // waived by the caller, and not enforced here
	Warnings   []string
}

// Wall is one isolation layer of a posture: a mechanism, its state, and the evidence.
type Wall struct {
	Name   string    `json:"name"`
	State  WallState `json:"state"`
	Detail string    `json:"detail,omitempty"` // what was found
	Fix    string    `json:"fix,omitempty"`    // how to make it available
}

// WallState says whether an isolation layer is enforced.
type WallState string

// The states of an isolation layer.
const (
	WallEnforced WallState = "enforced"
	WallPartial  WallState = "partial" // enforced, but less strongly than on the best host
	WallMissing  WallState = "missing" // not available
)

// Posture records which isolation layers one backend has on this host.
type Posture struct {
	Backend string `json:"backend"`
	Kernel  Kernel `json:"kernel"`
	Walls   []Wall `json:"isolation"`
	Ready   bool   `json:"ready"` // sandboxes with the default policy can be made here
}

// Wall returns the isolation layer of that name, missing if there is none.
func (p Posture) Wall(name string) Wall {
	for _, w := range p.Walls {
		if w.Name == name {
			return w
		}
	}
	return Wall{Name: name, State: WallMissing}
}
