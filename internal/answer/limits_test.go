package answer

import (
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestLimits(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		name string
		in   api.Limits
		want string // "" is no error
	}{
		{"none", api.Limits{}, ""},
		{"plain", api.Limits{TimeoutS: number(0.5), MemoryMiB: number(64), CPUs: number(0.25), Pids: number(9),
			DiskMiB: number(1), OutputKiB: number(1)}, ""},
		{"zero", api.Limits{MemoryMiB: number(0)}, "limits.memory_mib"},
		{"negative", api.Limits{TimeoutS: number(-1)}, "limits.timeout_s"},
		{"the value that means unlimited inside", api.Limits{Pids: number(-1)}, "limits.pids"},
		{"overflowing", api.Limits{DiskMiB: number(1e300)}, "limits.disk_mib"},
		{"vanishing", api.Limits{CPUs: number(1e-9)}, "limits.cpus"},
		{"half a process", api.Limits{Pids: number(2.5)}, "limits.pids"},
	} {
		_, err := LimitsOf(&c.in)
		var e *sandbox.Error
		if got := errors.As(err, &e); got != (c.want != "") || got && e.Op != c.want ||
			c.name == "vanishing" && e.Msg != "is too small" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
