package packages

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestMovedImage: packages belong to the content of an image, not to its name, which can move to another image.
func TestMovedImage(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{Requirements: []string{"a"}})
	for want, digest := range []string{"none", "one", "two"} {
		need.Root = sandbox.Root{Image: "image:latest", Digest: digest}
		for range 2 {
			if r.supply(need); r.installs != want+1 {
				t.Errorf("%d installs; want %d", r.installs, want+1)
			}
		}
	}
}

// TestRootSurvey: the root is surveyed only if a package is needed, in a sandbox without code and files, and once for
// many codes.
func TestRootSurvey(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{Auto: true})
	r.code.Found = []sandbox.Import{{Name: "a", Optional: true}}
	if s, err := r.p.Supply(t.Context(), need, r.work); err != nil || len(s.Layers) > 0 || r.surveys != 0 {
		t.Errorf("%+v, %v, %d surveys of the root", s, err, r.surveys)
	}
	r.code = sandbox.PackageSurvey{Platform: "hostile", Installer: "hostile", Index: "https://hostile.test/",
		Hosts: []string{"hostile.test"}, Found: []sandbox.Import{{Name: "a"}}}
	for _, code := range []string{"1", "2"} {
		need.Code = []byte(code)
		if r.supply(need); r.surveys != 1 || r.installs != 1 ||
			!slices.Equal(r.network.Allow, []string{"index.test:443", "files.test"}) {
			t.Errorf("%d surveys of the root, %d installs, %q", r.surveys, r.installs, r.network.Allow)
		}
	}
	need.Root.Image = "image" // of which nobody knows what it holds
	for range 2 {
		need.Code = append(need.Code, '#')
		r.supply(need)
	}
	if r.surveys != 3 {
		t.Errorf("%d surveys", r.surveys)
	}
}
