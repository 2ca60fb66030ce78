package sandbox

import (
	"math"
	"time"
)

// LimitName names one limit, the same in every API.
type LimitName string

// The limits, in the order in which they are shown.
const (
	LimitMemory    LimitName = "memory"
	LimitCPUs      LimitName = "cpus"
	LimitPids      LimitName = "pids"
	LimitDisk      LimitName = "disk"
	LimitInodes    LimitName = "inodes"
	LimitOpenFiles LimitName = "open_files"
	LimitTimeout   LimitName = "timeout"
	LimitOutput    LimitName = "output"
)

// LimitNames lists every limit in the order in which they are shown.
var LimitNames = []LimitName{LimitMemory, LimitCPUs, LimitPids, LimitDisk, LimitInodes, LimitOpenFiles, LimitTimeout,
	LimitOutput}

// PolicyCommands is the list of allowed programs. It is not a limit, but it is enforced, waived and reported like one.
const PolicyCommands LimitName = "commands"

// Waivable lists what a caller may waive by name: every limit, and the policies that some host or backend cannot
// enforce.
var Waivable = append(LimitNames[:len(LimitNames):len(LimitNames)], PolicyCommands)

// Unlimited marks a limit in an effective policy that nothing enforces. It cannot be requested.
const Unlimited = -1

// NoTimeout is a Timeout that sets no limit: the run ends with its sandbox. It exceeds the life of every sandbox, so
// that arithmetic needs no special case.
const NoTimeout = 100 * 365 * 24 * time.Hour

// Limits bounds one sandbox and each run in it. A zero field means the default; Unlimited occurs only in an effective
// policy.
//
// The writable places lie in memory, so what is written there counts twice: against DiskBytes, where it fails with
// ENOSPC, and against MemoryBytes, where the kernel kills. A disk limit that is not set is at most half of the memory,
// so that ENOSPC comes first for a program that needs no more than the other half; one that is set may be all of the
// memory and no more.
type Limits struct {
	MemoryBytes int64         // anonymous memory, kernel memory and files in the writable places
	CPUMillis   int64         // thousandths of one CPU
	Pids        int64         // processes and threads
	DiskBytes   int64         // all writable places together: workspace, /tmp, home, /dev/shm
	Inodes      int64         // files and directories in the writable places
	OpenFiles   int64         // open descriptors of one process
	Timeout     time.Duration // wall time of one run, on the monotonic clock; NoTimeout is no limit
	OutputBytes int64         // stdout and stderr of one run, each
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// DefaultLimits apply to a default request.
var DefaultLimits = Limits{
	MemoryBytes: 512 * mib,
	CPUMillis:   1000,
	Pids:        128,
	DiskBytes:   100 * mib,
	Inodes:      16384,
	OpenFiles:   1024,
	Timeout:     30 * time.Second,
	OutputBytes: 1 * mib,
}

// limitBounds holds the smallest and largest value of each limit, in the unit of its field (durations in nanoseconds).
// The smallest is what the guest and the smallest interpreter need. The largest prevents arithmetic overflow and
// catches typing errors.
var limitBounds = map[LimitName]struct{ least, most int64 }{
	LimitMemory:    {8 * mib, 16 * tib},
	LimitCPUs:      {10, 1024 * 1000},
	LimitPids:      {2, 1 << 20},
	LimitDisk:      {1 * mib, 16 * tib},
	LimitInodes:    {64, 1 << 30},
	LimitOpenFiles: {16, 1 << 20},
	LimitTimeout:   {int64(time.Millisecond), int64(24 * time.Hour)},
	LimitOutput:    {1 * kib, 1 * gib},
}

// Get returns the value of the named limit in the unit of its field (Timeout in nanoseconds).
func (l Limits) Get(name LimitName) int64 { return *l.field(name) }

// Set stores the value of the named limit in the unit of its field (Timeout in nanoseconds).
func (l *Limits) Set(name LimitName, value int64) { *l.field(name) = value }

func (l *Limits) field(name LimitName) *int64 {
	switch name {
	case LimitMemory:
		return &l.MemoryBytes
	case LimitCPUs:
		return &l.CPUMillis
	case LimitPids:
		return &l.Pids
	case LimitDisk:
		return &l.DiskBytes
	case LimitInodes:
		return &l.Inodes
	case LimitOpenFiles:
		return &l.OpenFiles
	case LimitTimeout:
		return (*int64)(&l.Timeout)
	case LimitOutput:
		return &l.OutputBytes
	}
	panic("sandbox: unknown limit " + string(name))
}

// CPUs returns the number of CPUs that the limit amounts to, rounded up and at least 1.
func (l Limits) CPUs() int64 { return max(1, (l.CPUMillis+999)/1000) }

// Check checks that each limit that is set lies within its bounds. Nothing is clamped.
func (l Limits) Check() error {
	for _, name := range LimitNames {
		v := l.Get(name)
		b := limitBounds[name]
		switch {
		case v == 0, name == LimitTimeout && v == int64(NoTimeout):
		case v < 0:
			return Invalidf("limits."+string(name), "must be positive")
		case v < b.least:
			return Invalidf("limits."+string(name), "%s is too small; the least is %s", FormatLimit(name, v),
				FormatLimit(name, b.least))
		case v > b.most:
			return Invalidf("limits."+string(name), "%s is too large; the most is %s", FormatLimit(name, v),
				FormatLimit(name, b.most))
		}
	}
	return nil
}

// Named returns the names of the limits that are set. A named limit is enforced, or the request is refused.
func (l Limits) Named() []LimitName {
	var names []LimitName
	for _, name := range LimitNames {
		if l.Get(name) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// diskShare is the part of the memory that a disk limit nobody set may have: one of so many.
const diskShare = 2

// OrDefault fills the fields that are zero from d. A disk limit so filled is at most half of the memory.
func (l Limits) OrDefault(d Limits) Limits {
	unset := l.DiskBytes == 0
	for _, name := range LimitNames {
		if l.Get(name) == 0 {
			l.Set(name, d.Get(name))
		}
	}
	if unset && l.MemoryBytes > 0 {
		l.DiskBytes = min(l.DiskBytes, l.MemoryBytes/diskShare)
	}
	return l
}

// FormatLimit renders a value of the named limit with its unit, as users write it: "512MiB", "1.5", "30s".
func FormatLimit(name LimitName, v int64) string {
	switch {
	case v == Unlimited:
		return "unlimited"
	case name == LimitTimeout && v == int64(NoTimeout):
		return "none"
	case name == LimitTimeout:
		return time.Duration(v).String()
	case name == LimitCPUs:
		return formatFloat(float64(v) / 1000)
	case name == LimitMemory || name == LimitDisk || name == LimitOutput:
		return FormatBytes(v)
	}
	return formatFloat(float64(v))
}

// FormatBytes renders a number of bytes with the largest binary unit that keeps it short: "1.5MiB".
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return formatFloat(math.Round(v*10)/10) + units[u]
}
