package native

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/kernel"
)

// kernelFacts are the kernel's properties that isolation depends on, read once.
type kernelFacts struct {
	kernel.Version
	landlock int // version of its interface; 0 is none

	// keepsCopies reports that code can make the kernel keep copies of sent data in its sockets' error queues, by
	// control messages that request time stamps. Since Linux 6.18 a network namespace can refuse that; before, only the
	// whole host.
	keepsCopies bool
}

func readKernel() kernelFacts {
	k := kernelFacts{Version: kernel.Running()}
	allowed, _ := os.ReadFile("/proc/sys/net/core/tstamp_allow_data")
	k.keepsCopies = !k.AtLeast(6, 18) && strings.TrimSpace(string(allowed)) != "0"
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		k.landlock = int(version)
	}
	return k
}
