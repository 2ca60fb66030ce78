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
	backendtest.ForCheck(t, "it records facts of the host")
	images := backendtest.PythonImages(t)
	backendtest.Posture(t, backendtest.Postured{
		Open: func(t *testing.T) sandbox.Backend {
			b := whole(t).(*Backend)
			b.Images = images
			return b
		},
		Restart: func(t *testing.T) (dying, next sandbox.Backend, die func()) {
			dir := filepath.Join(t.TempDir(), "run")
			first, second := openIn(t, dir, ""), openIn(t, dir, "")
			return first, second, func() { abandon(t, first) }
		},
		Python: python.Language,
		Image:  backendtest.PythonImage,
	})
}
