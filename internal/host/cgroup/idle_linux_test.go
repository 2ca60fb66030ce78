package cgroup

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
)

// TestIdleOfForgottenLimits: groups with unused limits make room for others.
func TestIdleOfForgottenLimits(t *testing.T) {
	tree := open(t)
	if tree.Enforcer(Pids) != "cgroup v1 pids" {
		t.Skip("groups are kept on v1 alone: " + tree.Detail())
	}
	for n := range maxIdle + 3 {
		g, err := tree.Create("g"+strconv.Itoa(n), Limits{Pids: int64(n + 10)})
		if err == nil {
			err = g.Remove(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tree.idle.groups); n != maxIdle {
		t.Errorf("%d are kept", n)
	}
	if last := tree.idle.groups[maxIdle-1]; last.limits.Pids != maxIdle+3-1+10 {
		t.Errorf("the last one is not: %+v", last.limits)
	}
	for _, b := range tree.branches {
		if kept, _ := filepath.Glob(filepath.Join(b.Dir, idlePrefix+"*")); len(kept) != maxIdle {
			t.Errorf("left: %v", kept)
		}
	}
}
