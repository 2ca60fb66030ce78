package native

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestPostureRecord(t *testing.T) { record(t, accepted()) }

// TestPostureRecordWithoutGroups: without control groups everything else is the same.
func TestPostureRecordWithoutGroups(t *testing.T) {
	record(t, []string{"memory"}, "memory", "cpu", "pids", "cpuacct")
}

func record(t *testing.T, accept []string, lack ...string) {
	backendtest.ForCheck(t, "it records facts of the host")
	options, image := Options{Guest: guestProgram, Lack: lack}, ""
	if os.Geteuid() == 0 { // an ordinary user's records are of other hosts
		options.Images, image = backendtest.PythonImages(t), backendtest.PythonImage
	}
	in := func(t *testing.T, dir string) *Backend {
		options := options
		options.RunDir = dir
		b, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	backendtest.Posture(t, backendtest.Postured{
		Open: func(t *testing.T) sandbox.Backend { return in(t, filepath.Join(t.TempDir(), "run")) },
		Settle: func(b sandbox.Backend) {
			if in := await(b.(*Backend)); in != nil {
				in.release()
			}
		},
		Variant: func(lines []string) string {
			if slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(line, "inside: mount / ") && strings.Contains(line, "uid=")
			}) {
				return "stepwise"
			}
			// a template's root has no owner inside; the host's mounts changing, it may be given up at any time
			return "template"
		},
		Restart: func(t *testing.T) (dying, next sandbox.Backend, die func()) {
			dir := filepath.Join(t.TempDir(), "run")
			first, second := in(t, dir), in(t, dir)
			return first, second, func() {
				abandon(t, first)
				first.In = nil // before the backend is closed
			}
		},
		Python: python.Language,
		Image:  image,
		Accept: accept,
	})
}

func TestCrashWall(t *testing.T) {
	for pattern, want := range map[string]sandbox.WallState{"core\n": sandbox.WallEnforced,
		"/var/crash/%p\n": sandbox.WallEnforced, "": sandbox.WallEnforced,
		"|/usr/share/apport/apport -p%p\n": sandbox.WallPartial} {
		w := crashWall(pattern)
		if w.State != want || (w.Fix == "") != (want == sandbox.WallEnforced) || strings.Contains(w.Detail, "%") {
			t.Errorf("%q: %+v", pattern, w)
		}
	}
}
