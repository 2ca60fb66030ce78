package native

import (
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestUnenforced: a refusal names all that lacks at once, and whoever accepts that is not refused again.
func TestUnenforced(t *testing.T) {
	spec := sandbox.Spec{Limits: sandbox.DefaultLimits, Workdir: "/w", Named: []sandbox.LimitName{sandbox.LimitCPUs, sandbox.LimitDisk},
		AcceptWeaker: []string{"disk"}}
	err := unenforced(&spec, &cgroup.Tree{})
	if want := []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs, sandbox.LimitDisk}; !slices.Equal(sandbox.LacksOf(err), want) {
		t.Errorf("lacking are %v; want %v", sandbox.LacksOf(err), want)
	}
	for _, name := range sandbox.LacksOf(err) {
		spec.AcceptWeaker = append(spec.AcceptWeaker, string(name))
	}
	if err := unenforced(&spec, &cgroup.Tree{}); err != nil {
		t.Errorf("accepted, and refused: %v", err)
	}
	if lacks := sandbox.LacksOf(unenforced(&sandbox.Spec{}, &cgroup.Tree{})); !slices.Equal(lacks, []sandbox.LimitName{sandbox.LimitMemory}) {
		t.Errorf("of a spec that names nothing: %v", lacks)
	}
}

// TestForetell: what Create refuses is foretold, and what it makes is not refused.
func TestForetell(t *testing.T) {
	b := open(t, "")
	s := spec()
	if _, err := b.Foretell(s); err != nil {
		t.Errorf("refused: %v", err)
	}
	s.Workdir, s.Named = t.TempDir(), []sandbox.LimitName{sandbox.LimitDisk}
	lacking, err := b.Foretell(s)
	if _, created := b.Create(t.Context(), s); sandbox.KindOf(err) != sandbox.Unsupported || err.Error() != created.Error() {
		t.Errorf("foretold %v, was %v", err, created)
	}
	if !slices.Contains(lacking, sandbox.LimitDisk) {
		t.Errorf("lacking are %v", lacking)
	}
}
