package native

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPreflight: Preflight refuses exactly what Create refuses.
func TestPreflight(t *testing.T) {
	b := open(t, "")
	s := spec()
	if _, err := b.Preflight(s); err != nil {
		t.Errorf("refused: %v", err)
	}
	s.Workspace, s.Named = t.TempDir(), []sandbox.LimitName{sandbox.LimitDisk}
	lacking, err := b.Preflight(s)
	if _, created := b.Create(t.Context(), s); sandbox.KindOf(err) != sandbox.Unsupported ||
		err.Error() != created.Error() {
		t.Errorf("preflighted %v, was %v", err, created)
	}
	if !slices.Contains(lacking, sandbox.LimitDisk) {
		t.Errorf("lacking are %v", lacking)
	}
}
