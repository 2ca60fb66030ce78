package native

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestUnenforcedMend: whoever is refused reads how to let go in the words of their own surface, flag or field.
func TestUnenforcedMend(t *testing.T) {
	err := unenforced(&sandbox.Spec{Limits: sandbox.DefaultLimits}, &cgroup.Tree{})
	for _, want := range []string{"--accept-weaker memory", `"accept_weaker": ["memory"]`} {
		if !strings.Contains(sandbox.MendOf(err), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err := unenforced(&sandbox.Spec{AcceptWeaker: []string{"memory"}}, &cgroup.Tree{}); err != nil {
		t.Errorf("accepted, and refused: %v", err)
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
