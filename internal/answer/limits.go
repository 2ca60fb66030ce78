package answer

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Contract converts the units of the API into those of package sandbox. It refuses 0, which must never mean no limit.
func Contract(l *api.Limits) (sandbox.Limits, error) {
	var out sandbox.Limits
	for _, f := range limitFields(l) {
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
	var l api.Limits
	for _, f := range limitFields(&l) {
		if string(f.name) == name {
			return "limits." + f.field
		}
	}
	return op
}

// fieldsOfParams are the fields of other parts of a request that the engine names differently.
var fieldsOfParams = map[string]string{"lifetime.idle": "lifetime.idle_s", "lifetime.ends_in": "lifetime.ends_in_s"}

type limitUnit struct {
	name  sandbox.LimitName
	field string
	value **float64
	unit  float64 // of the API's field, in the unit of package sandbox
}

func limitFields(l *api.Limits) []limitUnit {
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
func NewLimits(in sandbox.Limits) api.Limits {
	var out api.Limits
	for _, f := range limitFields(&out) {
		if v := in.Get(f.name); v > 0 {
			shown := float64(v) / f.unit
			*f.value = &shown
		}
	}
	return out
}
