package native

import (
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

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
