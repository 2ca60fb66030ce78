package sandbox

// Kernel says whose kernel serves the system calls of the code.
type Kernel string

// The kinds of kernel, weakest wall first.
const (
	KernelShared    Kernel = "shared"     // the host's own
	KernelUserSpace Kernel = "user-space" // a kernel written in a safe language, in a confined process
	KernelMachine   Kernel = "machine"    // a virtual machine's
)

// Policy is what is enforced on a sandbox, as its backend reports it.
type Policy struct {
	Backend    string
	Kernel     Kernel
	Image      string               // that the root is of, as named and by its digest; "" where it is no image
	Limits     Limits               // Unlimited where nothing enforces the limit
	Enforcers  map[LimitName]string // what enforces each limit: "cgroup v2 memory.max", "RLIMIT_NPROC"
	Network    NetworkPolicy
	User       User
	HostUID    string   // "unique": an id of this sandbox's own; "subordinate"; "shared": the id of the caller
	Commands   []string // nil: all that the root holds
	Walls      []Wall
	Unenforced []string // what the caller accepted and the host could not do
	Warnings   []string
}

// Wall is one line of a posture: one mechanism, whether it stands, and what that rests on.
type Wall struct {
	Name   string    `json:"name"`
	State  WallState `json:"state"`
	Detail string    `json:"detail,omitempty"` // what was found
	Fix    string    `json:"fix,omitempty"`    // how to raise it, where it does not stand
}

// WallState says whether a wall stands.
type WallState string

// The states of a wall.
const (
	WallEnforced WallState = "enforced"
	WallPartial  WallState = "partial" // enforced, but less strongly than on the best host
	WallMissing  WallState = "missing" // it does not stand
)

// Posture is the record of which walls stand on this host for one backend, and why.
type Posture struct {
	Backend string `json:"backend"`
	Kernel  Kernel `json:"kernel"`
	Walls   []Wall `json:"walls"`
	Ready   bool   `json:"ready"` // sandboxes with the default policy can be made here
}

// Wall returns the wall of that name, or one that is missing.
func (p Posture) Wall(name string) Wall {
	for _, w := range p.Walls {
		if w.Name == name {
			return w
		}
	}
	return Wall{Name: name, State: WallMissing}
}
