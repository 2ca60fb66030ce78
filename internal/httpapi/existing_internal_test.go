package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDifferencesTime: the time of comparing variables is in proportion to their number, not to its square.
func TestDifferencesTime(t *testing.T) {
	const few, times = 256, 8
	best := map[int]time.Duration{few: time.Hour, times * few: time.Hour}
	for range 10 {
		for n := range best {
			var asked engine.Create
			var has engine.Info
			for i := range n {
				asked.Spec.Env = append(asked.Spec.Env, fmt.Sprintf("A%06d=x", i))
				has.Spec.Env = append(has.Spec.Env, fmt.Sprintf("B%06d=x", i))
			}
			began := time.Now()
			if got := len(differencesFrom(&asked, &has)); got != n {
				t.Fatalf("%d differences", got)
			}
			best[n] = min(best[n], time.Since(began))
		}
	}
	if best[times*few] > 4*times*best[few] {
		t.Errorf("%v", best)
	}
}

// TestDifferentVolumes: a volume that the existing sandbox lacks, or has in another way, is a difference.
func TestDifferentVolumes(t *testing.T) {
	var has engine.Info
	has.Spec = sandbox.Spec{Workspace: "/srv/work", Volumes: []sandbox.Volume{{Name: "data", Path: "/data"},
		{Bytes: 1 << 20, Path: "/scratch"}}, Mounts: []sandbox.Mount{{Source: "/srv/refs", Target: "/refs"}}}
	for v, same := range map[sandbox.Volume]bool{
		{Name: "data", Path: "/data"}:                          true,
		{Name: "data", Path: "/data", ReadOnly: true}:          false,
		{Name: "other", Path: "/data"}:                         false,
		{Bytes: 1 << 20, Path: "/scratch"}:                     true,
		{Bytes: 2 << 20, Path: "/scratch"}:                     false,
		{HostDir: "/srv/refs", Path: "/refs", ReadOnly: true}:  true,
		{HostDir: "/srv/refs", Path: "/refs"}:                  false,
		{HostDir: "/srv/other", Path: "/refs", ReadOnly: true}: false,
		{HostDir: "/srv/work", Path: sandbox.Workspace}:        true,
		{HostDir: "/srv/other", Path: sandbox.Workspace}:       false,
	} {
		asked := engine.Create{Spec: sandbox.Spec{Volumes: []sandbox.Volume{v}}}
		if got := differencesFrom(&asked, &has); (len(got) == 0) != same {
			t.Errorf("%+v: %+v", v, got)
		}
	}
}
