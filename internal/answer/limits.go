package answer

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits are the limits of one run, in the units of the API. In a request, an absent limit is the server's default.
type Limits struct {
	TimeoutS  *float64 `json:"timeout_s" doc:"Wall time in seconds." over:"0" example:"30"`
	MemoryMiB *float64 `json:"memory_mib" doc:"Memory in MiB, with the files in the sandbox's own places." over:"0" example:"512"`
	CPUs      *float64 `json:"cpus" doc:"CPUs; fractions are allowed." over:"0" example:"1"`
	DiskMiB   *float64 `json:"disk_mib" doc:"Bytes of all writable places together, in MiB. They count as memory too. If absent, at most half of the memory." over:"0" example:"100"`
	Pids      *float64 `json:"pids" doc:"Processes and threads." over:"0" whole:"true" example:"128"`
	OutputKiB *float64 `json:"output_kib" doc:"Kept output in KiB, for stdout and for stderr each." over:"0" example:"1024"`
	Inodes    *float64 `json:"inodes" doc:"Files and directories in the writable places." over:"0" whole:"true" example:"16384"`
	OpenFiles *float64 `json:"open_files" doc:"Open descriptors of one process." over:"0" whole:"true" example:"1024"`
}

// Contract converts the units of the API into those of package sandbox. It refuses 0, which must never mean no limit.
func (l *Limits) Contract() (sandbox.Limits, error) {
	var out sandbox.Limits
	for _, f := range l.fields() {
		if *f.value == nil {
			continue
		}
		v := **f.value
		if v <= 0 {
			return out, sandbox.Invalidf("limits."+f.field, "must be positive; leave it out for the default")
		}
		if v*f.unit > math.MaxInt64/2 {
			return out, sandbox.Invalidf("limits."+f.field, "is too large")
		}
		if v*f.unit < 1 || f.unit == 1 && v != math.Trunc(v) {
			return out, sandbox.Invalidf("limits."+f.field, "must be a whole number")
		}
		out.Set(f.name, int64(math.Round(v*f.unit)))
	}
	return out, nil
}

// fieldOf translates the engine's name of a field into the API's: limits.memory into limits.memory_mib.
func fieldOf(op string) string {
	name, ok := strings.CutPrefix(op, "limits.")
	if !ok {
		return cmp.Or(fieldsOfParams[op], op)
	}
	var l Limits
	for _, f := range l.fields() {
		if string(f.name) == name {
			return "limits." + f.field
		}
	}
	return op
}

// fieldsOfParams are the fields of other parts of a request that the engine names differently.
var fieldsOfParams = map[string]string{"labels": "metadata", "lifetime.idle": "lifetime.idle_s", "lifetime.max_age": "lifetime.max_age_s"}

type limitUnit struct {
	name  sandbox.LimitName
	field string
	value **float64
	unit  float64 // of the API's field, in the unit of package sandbox
}

func (l *Limits) fields() []limitUnit {
	return []limitUnit{
		{sandbox.LimitTimeout, "timeout_s", &l.TimeoutS, float64(time.Second)},
		{sandbox.LimitMemory, "memory_mib", &l.MemoryMiB, mib},
		{sandbox.LimitCPUs, "cpus", &l.CPUs, 1000},
		{sandbox.LimitDisk, "disk_mib", &l.DiskMiB, mib},
		{sandbox.LimitPids, "pids", &l.Pids, 1},
		{sandbox.LimitOutput, "output_kib", &l.OutputKiB, kib},
		{sandbox.LimitInodes, "inodes", &l.Inodes, 1},
		{sandbox.LimitOpenFiles, "open_files", &l.OpenFiles, 1},
	}
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// NewLimits converts limits into the units of the API. One that is not enforced or unknown stays nil.
func NewLimits(in sandbox.Limits) Limits {
	var out Limits
	for _, f := range out.fields() {
		if v := in.Get(f.name); v > 0 {
			shown := float64(v) / f.unit
			*f.value = &shown
		}
	}
	return out
}
