package answer

import (
	"math"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// LimitsOf converts the units of the API into those of package sandbox. A time limit of 0 is none.
// Any other limit of 0 is refused.
func LimitsOf(l *api.Limits) (sandbox.Limits, error) {
	var out sandbox.Limits
	for _, f := range limitFields(l) {
		if *f.value == nil {
			continue
		}
		v := **f.value
		field, unit := api.LimitUnits[f.name].Field, api.LimitUnits[f.name].Size
		if v == 0 && f.name == sandbox.LimitTimeout {
			out.Timeout = sandbox.NoTimeout
			continue
		}
		if v <= 0 {
			return out, sandbox.Invalidf("limits."+field, "must be positive; leave it out for the default")
		}
		if v*unit > math.MaxInt64/2 {
			return out, sandbox.Invalidf("limits."+field, "is too large")
		}
		if unit == 1 && v != math.Trunc(v) {
			return out, sandbox.Invalidf("limits."+field, "must be a whole number")
		}
		if v*unit < 1 {
			return out, sandbox.Invalidf("limits."+field, "is too small")
		}
		out.Set(f.name, int64(math.Round(v*unit)))
	}
	return out, nil
}

type limitField struct {
	name  sandbox.LimitName
	value **float64
}

func limitFields(l *api.Limits) []limitField {
	return []limitField{
		{sandbox.LimitTimeout, &l.TimeoutS}, {sandbox.LimitMemory, &l.MemoryMiB}, {sandbox.LimitCPUs, &l.CPUs},
		{sandbox.LimitDisk, &l.DiskMiB}, {sandbox.LimitPids, &l.Pids}, {sandbox.LimitOutput, &l.OutputKiB},
		{sandbox.LimitInodes, &l.Inodes}, {sandbox.LimitOpenFiles, &l.OpenFiles},
	}
}

// NewLimits converts limits into the units of the API. One that is not enforced or unknown stays nil.
func NewLimits(in sandbox.Limits) api.Limits {
	var out api.Limits
	for _, f := range limitFields(&out) {
		if v := in.Get(f.name); f.name == sandbox.LimitTimeout && v == int64(sandbox.NoTimeout) {
			*f.value = new(float64)
		} else if v > 0 {
			*f.value = new(float64(v) / api.LimitUnits[f.name].Size)
		}
	}
	return out
}
