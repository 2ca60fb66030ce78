package native

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelFacts are the kernel's properties that isolation depends on, read once.
type kernelFacts struct {
	release      string
	major, minor int
	landlock     int // version of its interface; 0 is none

	// keepsCopies reports that code can make the kernel keep copies of sent data in its sockets' error queues, by
	// control messages that request time stamps. Since Linux 6.18 a network namespace can refuse that; before, only the
	// whole host.
	keepsCopies bool
}

func readKernel() kernelFacts {
	var k kernelFacts
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		k.release = unix.ByteSliceToString(u.Release[:])
	}
	parts := strings.FieldsFunc(k.release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) >= 2 {
		k.major, _ = strconv.Atoi(parts[0])
		k.minor, _ = strconv.Atoi(parts[1])
	}
	allowed, _ := os.ReadFile("/proc/sys/net/core/tstamp_allow_data")
	k.keepsCopies = !k.atLeast(6, 18) && strings.TrimSpace(string(allowed)) != "0"
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		k.landlock = int(version)
	}
	return k
}

func (k kernelFacts) atLeast(major, minor int) bool {
	return k.major > major || k.major == major && k.minor >= minor
}
