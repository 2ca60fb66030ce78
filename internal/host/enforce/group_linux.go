package enforce

import (
	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Group returns a limit that a cgroup controller enforces, if the host has it.
func Group(name sandbox.LimitName, tree *cgroup.Tree, c cgroup.Controller) Limit {
	b := Limit{Name: name, By: tree.Enforcer(c)}
	if b.By == "" {
		b.Why, b.Fix = "this host cannot enforce it: "+tree.Detail(), tree.Fix()
	}
	return b
}

// Memory returns the memory limit, which is always mandatory: without it a sandbox can take the host down.
func Memory(tree *cgroup.Tree) Limit {
	b := Group(sandbox.LimitMemory, tree, cgroup.Memory)
	b.Mandatory = true
	return b
}

// Wall describes a limit that a cgroup controller enforces. without explains a missing controller.
func Wall(name sandbox.LimitName, tree *cgroup.Tree, c cgroup.Controller, without string) sandbox.Wall {
	w := sandbox.Wall{Name: "limit " + string(name), State: sandbox.WallEnforced, Detail: tree.Enforcer(c)}
	if w.Detail == "" {
		w.State, w.Detail, w.Fix = sandbox.WallMissing, without+": "+tree.Detail(), tree.Fix()
	}
	return w
}
