package bound

import (
	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Group is a limit that a controller keeps, or nothing.
func Group(name sandbox.LimitName, tree *cgroup.Tree, c cgroup.Controller) Bound {
	b := Bound{Name: name, By: tree.Enforcer(c)}
	if b.By == "" {
		b.Why, b.Fix = "nothing on this host can enforce it: "+tree.Detail(), tree.Fix()
	}
	return b
}

// Memory is the limit that nobody goes without unasked: a sandbox without it can take the host down.
func Memory(tree *cgroup.Tree) Bound {
	b := Group(sandbox.LimitMemory, tree, cgroup.Memory)
	b.Must = true
	return b
}
