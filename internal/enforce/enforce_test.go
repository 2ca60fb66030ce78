package enforce

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

func list(spec *sandbox.Spec) List {
	return List{
		{Name: sandbox.LimitMemory, Why: "no groups", Fix: "make some", Mandatory: true},
		{Name: sandbox.LimitCPUs, Why: "no groups", Fix: "make some"},
		Directories(Limit{Name: sandbox.LimitDisk, By: "tmpfs size"}, spec),
		{Name: sandbox.LimitPids, By: "rlimit"},
	}
}

// TestRefusal: a refusal names every missing limit at once, and a request that waives them all is not refused again.
func TestRefusal(t *testing.T) {
	spec := sandbox.Spec{Limits: sandbox.DefaultLimits, Workspace: "/w", Named: []sandbox.LimitName{sandbox.LimitCPUs, sandbox.LimitDisk},
		AllowUnenforced: []string{"disk"}}
	err := list(&spec).Refusal("x", &spec)
	want := []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs, sandbox.LimitDisk}
	if !slices.Equal(sandbox.UnenforcedOf(err), want) || !slices.Equal(list(&spec).Unenforced(), want) {
		t.Errorf("unenforced: %v; want %v", sandbox.UnenforcedOf(err), want)
	}
	if want := "x: limit memory, cpus, disk: no groups; nothing limits what the code writes to a host directory (make some; and " +
		"leave out the workspace and the writable mounts; or go without memory, cpus, disk)"; err.Error() != want {
		t.Errorf("it says %q", err)
	}
	for _, name := range sandbox.UnenforcedOf(err) {
		spec.AllowUnenforced = append(spec.AllowUnenforced, string(name))
	}
	if err := list(&spec).Refusal("x", &spec); err != nil {
		t.Errorf("waived, but refused: %v", err)
	}
	var nothing sandbox.Spec
	if unenforced := sandbox.UnenforcedOf(list(&nothing).Refusal("x", &nothing)); !slices.Equal(unenforced, []sandbox.LimitName{sandbox.LimitMemory}) {
		t.Errorf("of a spec that names nothing: %v", unenforced)
	}
}

// TestReport: a limit that is not enforced is unlimited, and reported as waived or as a warning.
func TestReport(t *testing.T) {
	spec := sandbox.Spec{Limits: sandbox.DefaultLimits, Commands: []string{"cat"}, AllowUnenforced: []string{"memory", "pids", "commands"}}
	var p sandbox.Policy
	append(list(&spec), Limit{Name: sandbox.PolicyCommands, Documented: true}).Report(&p, &spec)
	if p.Limits.MemoryBytes != sandbox.Unlimited || p.Limits.CPUMillis != sandbox.Unlimited || p.Limits.Pids != sandbox.DefaultLimits.Pids || p.Commands != nil {
		t.Errorf("limits %+v, commands %v", p.Limits, p.Commands)
	}
	if want := []string{"memory", "commands"}; !slices.Equal(p.Unenforced, want) {
		t.Errorf("weaker %v, want %v", p.Unenforced, want)
	}
	if len(p.Warnings) != 1 || p.Enforcers[sandbox.LimitPids] != "rlimit" || p.Enforcers[sandbox.LimitMemory] != "" {
		t.Errorf("warnings %v, enforcers %v", p.Warnings, p.Enforcers)
	}
}

// TestKills: an enforced memory limit reports the figure at which the kernel kills.
func TestKills(t *testing.T) {
	b := Limit{Name: sandbox.LimitMemory, By: "cgroup v2 memory"}
	if by := b.Kills(576 << 20).By; by != "cgroup v2 memory, 576MiB with the disk" {
		t.Errorf("it is %q", by)
	}
	for _, none := range []Limit{b.Kills(0), (Limit{}).Kills(1 << 20)} {
		if strings.Contains(none.By, "disk") {
			t.Errorf("it is %q", none.By)
		}
	}
}
