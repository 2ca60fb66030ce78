package confine

import (
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// What also holds for the zygote: glibc keeps the limit of the stack that it finds when a program starts, as the size of its threads'
// own.
var (
	NoCore    = Rlimit{Resource: unix.RLIMIT_CORE}
	CodeStack = Rlimit{Resource: unix.RLIMIT_STACK, Soft: 8 << 20, Hard: 64 << 20}
)

// Rlimits are the resource limits of a sandbox: of its guest and all that it starts, and of what it starts over these.
func Rlimits(l sandbox.Limits) (guest, payload []Rlimit) {
	both := func(resource int, v int64) Rlimit {
		return Rlimit{Resource: uint32(resource), Soft: uint64(v), Hard: uint64(v)}
	}
	const guestFiles = 4096
	guest = []Rlimit{
		NoCore,
		both(unix.RLIMIT_NOFILE, max(l.OpenFiles, guestFiles)),
		both(unix.RLIMIT_MEMLOCK, 64<<10),
		both(unix.RLIMIT_MSGQUEUE, 819200), // the kernel's default; it is charged to the user, who is the sandbox's own
		both(unix.RLIMIT_SIGPENDING, 4096),
		both(unix.RLIMIT_RTPRIO, 0),
		both(unix.RLIMIT_NICE, 0),
		CodeStack,
	}
	payload = []Rlimit{
		both(unix.RLIMIT_NPROC, l.Pids),
		both(unix.RLIMIT_NOFILE, l.OpenFiles),
	}
	return guest, payload
}
