package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestPostureRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: gVisor's posture has a reviewed record as root alone")
	}
	backendtest.Posture(t, backendtest.Postured{
		Open: whole,
		Restart: func(t *testing.T) (dying, next sandbox.Backend, die func()) {
			dir := filepath.Join(t.TempDir(), "run")
			first, second := openIn(t, dir, ""), openIn(t, dir, "")
			return first, second, func() { abandon(t, first) }
		},
		Python: python.Language,
	})
}
