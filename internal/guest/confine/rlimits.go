package confine

import "github.com/glovebox-dev/glovebox/sandbox"

// Resources by Linux's numbers (getrlimit(2), the same on both processors served): the host that makes a plan may be another system.
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

// What also holds for the zygote: glibc keeps the limit of the stack that it finds when a program starts, as the size of its threads'
// own.
var (
	NoCore    = Rlimit{Resource: rlimitCore}
	CodeStack = Rlimit{Resource: rlimitStack, Soft: 8 << 20, Hard: 64 << 20}
)

// Rlimits are the resource limits of a sandbox: of its guest and all that it starts, and of what it starts over these.
func Rlimits(l sandbox.Limits) (guest, payload []Rlimit) {
	both := func(resource int, v int64) Rlimit {
		return Rlimit{Resource: uint32(resource), Soft: uint64(v), Hard: uint64(v)}
	}
	const guestFiles = 4096
	guest = []Rlimit{
		NoCore,
		both(rlimitNofile, max(l.OpenFiles, guestFiles)),
		both(rlimitMemlock, 64<<10),
		both(rlimitMsgqueue, 819200), // the kernel's default; it is charged to the user, who is the sandbox's own
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
