package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestPostureRecord compares a container's view with the record of the tests' engines.
func TestPostureRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: the engines of the tests are root's")
	}
	each(t, func(t *testing.T, o Options) {
		backendtest.Posture(t, backendtest.Postured{
			Name: o.Name,
			Open: opener(o.Name),
			Restart: func(t *testing.T) (dying, next sandbox.Backend, die func()) {
				o := o
				o.RunDir = filepath.Join(t.TempDir(), "run")
				first, second := open(t, o), open(t, o)
				return first, second, func() { abandon(t, first) }
			},
			Python: python.Language,
		})
	})
}
