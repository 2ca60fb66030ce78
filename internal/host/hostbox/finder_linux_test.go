package hostbox

import (
	"os"
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFinderSearchesTheGroup: the search for a box's processes is bounded by its control group, if it has one.
func TestFinderSearchesTheGroup(t *testing.T) {
	group, err := cgroup.Of(os.Getpid())
	if err != nil || !slices.Contains(group.Processes(), os.Getpid()) {
		t.Skipf("SKIPPED, NOT TESTED: this process is in no control group: %v", err)
	}
	var among []int
	find := Finder(func(_ sandbox.ID, pids []int) []int {
		among = pids
		return []int{os.Getpid()}
	})
	if found := find.among(group, "box"); !slices.Equal(found, []int{os.Getpid()}) {
		t.Errorf("found %v", found)
	}
	if !slices.Contains(among, os.Getpid()) ||
		!slices.Equal(among, slices.Compact(slices.Sorted(slices.Values(among)))) {
		t.Errorf("searched %v, not each process of the group once", among)
	}
	find.among(&cgroup.Group{}, "box")
	if among != nil {
		t.Errorf("without control groups, searched %v", among)
	}
}
