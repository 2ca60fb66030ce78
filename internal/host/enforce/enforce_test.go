package enforce

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
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
	spec := sandbox.Spec{Limits: sandbox.DefaultLimits, Workspace: "/w", Named: []sandbox.LimitName{sandbox.LimitCPUs,
		sandbox.LimitDisk},
		AllowUnenforced: []string{"disk"}}
	err := list(&spec).Refusal("x", &spec)
	want := []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs, sandbox.LimitDisk}
	if !slices.Equal(sandbox.UnenforcedOf(err), want) || !slices.Equal(list(&spec).Unenforced(), want) {
		t.Errorf("unenforced: %v; want %v", sandbox.UnenforcedOf(err), want)
	}
	if want := "x: limit memory, cpus, disk: no groups; nothing limits the files that code writes to a host directory (make some; and " +
		"leave out the workspace and the writable mounts; or run without limits: memory, cpus, disk)"; err.Error() != want {
		t.Errorf("it says %q", err)
	}
	for _, name := range sandbox.UnenforcedOf(err) {
		spec.AllowUnenforced = append(spec.AllowUnenforced, string(name))
	}
	if err := list(&spec).Refusal("x", &spec); err != nil {
		t.Errorf("waived, but refused: %v", err)
	}
	var nothing sandbox.Spec
	if unenforced := sandbox.UnenforcedOf(list(&nothing).Refusal("x", &nothing)); !slices.Equal(unenforced,
		[]sandbox.LimitName{sandbox.LimitMemory}) {
		t.Errorf("of a spec that names nothing: %v", unenforced)
	}
}

// TestReport: a limit that is not enforced is unlimited, and reported as waived or as a warning.
func TestReport(t *testing.T) {
	spec := sandbox.Spec{Limits: sandbox.DefaultLimits, Commands: []string{"cat"},
		AllowUnenforced: []string{"memory", "pids", "commands"}}
	var p sandbox.Policy
	append(list(&spec), Limit{Name: sandbox.PolicyCommands, Documented: true}).Report(&p, &spec)
	if p.Limits.MemoryBytes != sandbox.Unlimited || p.Limits.CPUMillis != sandbox.Unlimited ||
		p.Limits.Pids != sandbox.DefaultLimits.Pids || p.Commands != nil {
		t.Errorf("limits %+v, commands %v", p.Limits, p.Commands)
	}
	if want := []string{"memory", "commands"}; !slices.Equal(p.Unenforced, want) {
		t.Errorf("weaker %v, want %v", p.Unenforced, want)
	}
	if len(p.Warnings) != 1 || p.Enforcers[sandbox.LimitPids] != "rlimit" || p.Enforcers[sandbox.LimitMemory] != "" {
		t.Errorf("warnings %v, enforcers %v", p.Warnings, p.Enforcers)
	}
}

// TestCounts: what bounds the memory says what counts there, where something does.
func TestCounts(t *testing.T) {
	b := Limit{Name: sandbox.LimitMemory, By: "cgroup v2 memory"}
	for _, c := range []struct{ got, want string }{
		{b.Counts(0).By, "cgroup v2 memory, files included"},
		{b.Counts(32 << 20).By, "cgroup v2 memory, files included; 32MiB more for the backend itself"},
		{Limit{}.Counts(32 << 20).By, ""},
	} {
		if c.got != c.want {
			t.Errorf("it is %q, want %q", c.got, c.want)
		}
	}
}
