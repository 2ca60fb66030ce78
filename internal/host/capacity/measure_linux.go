package capacity

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Processes returns how many processes and threads all sandboxes may have together; 0 is unknown.
func Processes() int64 { return cgroup.TreePids(Host().Pids) }

func measure(l *sandbox.Limits) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		l.MemoryBytes = int64(uint64(info.Totalram) * uint64(info.Unit)) // 32 bits on some machines
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Max < 1<<62 { // larger is RLIM_INFINITY
		l.OpenFiles = int64(files.Max) // a sandbox cannot have more: setrlimit(2)
	}
	around, _ := cgroup.Around() // without groups there are no lower limits
	lower(&l.MemoryBytes, around.MemoryBytes)
	lower(&l.CPUMillis, around.CPUMillis)
	lower(&l.Pids, around.Pids)
}

func lower(to *int64, v int64) {
	if v > 0 && (*to == 0 || v < *to) {
		*to = v
	}
}
