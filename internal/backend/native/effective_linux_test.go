package native

import (
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
