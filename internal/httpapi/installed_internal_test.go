package httpapi

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestInstalled: a layer is of the sandboxes that have all of its packages, however many each has, and finding them
// holds little.
func TestInstalled(t *testing.T) {
	const sandboxes, packages = 64, 2000
	list := make([]sandbox.Package, packages)
	for i := range list {
		list[i] = sandbox.Package{Name: fmt.Sprint("p", i), Version: "1"}
	}
	living := make([]engine.Info, sandboxes)
	for i := range living {
		living[i].ID = sandbox.ID(fmt.Sprint(i))
		living[i].Packages = map[string]sandbox.Added{"python": {Installed: list[:len(list)-i%2]}}
	}
	installedIn := func() *installations {
		x := newInstallations(sandboxes * packages)
		for i := range living {
			x.add(&living[i])
		}
		x.sort()
		return x
	}
	x := installedIn()
	if got := x.users(list); len(got) != sandboxes/2 || got[0] != "0" || slices.Contains(got, "1") {
		t.Errorf("all packages: %q", got)
	}
	if got := x.users(list[:10]); len(got) != sandboxes {
		t.Errorf("the first packages: %d sandboxes", len(got))
	}
	other := append(slices.Clone(list[:10]), sandbox.Package{Name: "p0", Version: "2"})
	if got := [][]sandbox.ID{x.users(other), x.users(nil)}; len(got[0])+len(got[1]) > 0 || got[1] == nil {
		t.Errorf("other packages: %q", got)
	}
	if held := testing.AllocsPerRun(1, func() { installedIn() }); held > 20 {
		t.Errorf("%v allocations", held)
	}
}
