package confine

import "github.com/fumehood-dev/fumehood/sandbox"

// Resources by Linux's numbers (getrlimit(2), equal on both supported processors): the host that makes a plan may run
// another system.
const (
	rlimitStack      = 3
	rlimitCore       = 4
	RlimitNproc      = 6
	rlimitNofile     = 7
	rlimitMemlock    = 8
	rlimitSigpending = 11
	rlimitMsgqueue   = 12
	rlimitNice       = 13
	rlimitRtprio     = 14
)

// These also apply to the zygote: glibc sizes thread stacks by the stack limit at a program's start.
var (
	NoCore    = Rlimit{Resource: rlimitCore}
	CodeStack = Rlimit{Resource: rlimitStack, Soft: 8 << 20, Hard: 64 << 20}
)

// Rlimits are a sandbox's resource limits: for its guest and all its processes, and overrides for these processes.
func Rlimits(l sandbox.Limits) (guest, payload []Rlimit) {
	both := func(resource int, v int64) Rlimit {
		return Rlimit{Resource: uint32(resource), Soft: uint64(v), Hard: uint64(v)}
	}
	const guestFiles = 4096
	guest = []Rlimit{
		NoCore,
		both(rlimitNofile, max(l.OpenFiles, guestFiles)),
		both(rlimitMemlock, 64<<10),
		both(rlimitMsgqueue, 819200), // the kernel's default; charged to the sandbox's own user
		both(rlimitSigpending, 4096),
		both(rlimitRtprio, 0),
		both(rlimitNice, 0),
		CodeStack,
	}
	payload = []Rlimit{
		both(RlimitNproc, l.Pids),
		both(rlimitNofile, l.OpenFiles),
	}
	return guest, payload
}
