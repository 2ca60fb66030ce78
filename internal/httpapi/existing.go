package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// asUsual is the tolerance of times, which a repeated request shifts.
const asUsual = 2 * time.Second

// differencesFrom compares what a request names with the sandbox that has its name already. Values of variables and
// secrets are not in the answer.
func differencesFrom(asked *engine.Create, i *engine.Info) (all []sandbox.Difference) {
	add := func(name, requested, effective string) {
		if requested != effective {
			all = append(all, sandbox.Difference{Name: name, Requested: requested, Effective: effective})
		}
	}
	for _, name := range sandbox.LimitNames {
		if v := asked.Spec.Limits.Get(name); v != 0 {
			add(string(name), sandbox.FormatLimit(name, v), sandbox.FormatLimit(name, i.Spec.Limits.Get(name)))
		}
	}
	if asked.Backend != "" && asked.Backend != "auto" {
		add("backend", asked.Backend, i.Backend)
	}
	if image := asked.Spec.Root.Image; image != "" {
		add("image", image, i.Spec.Root.Image)
	}
	if n := asked.Spec.Network; n.Wanted() != "" {
		add("network", describeNetwork(&n), describeNetwork(&i.Spec.Network))
		if !slices.EqualFunc(n.Secrets, i.Spec.Network.Secrets, sameValue) {
			add("network.secrets", "set", "other values")
		}
	}
	for _, path := range lacking(&i.Spec, asked.Spec.Volumes) {
		add("volumes", path, "not mounted as requested")
	}
	has := map[string]string{} // both may have a thousand variables
	for _, variable := range i.Spec.Env {
		name, value, _ := strings.Cut(variable, "=")
		has[name] = value
	}
	for _, variable := range asked.Spec.Env {
		name, value, _ := strings.Cut(variable, "=")
		switch old, set := has[name]; {
		case !set:
			add("env."+name, "set", "not set")
		case old != value:
			add("env."+name, "set", "another value")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked.Spec.Metadata)) {
		add("metadata."+name, asked.Spec.Metadata[name], i.Spec.Metadata[name])
	}
	installed := map[string]bool{}
	for _, added := range i.Packages {
		for _, requirement := range added.Requirements {
			installed[requirement] = true
		}
	}
	for _, language := range slices.Sorted(maps.Keys(asked.Packages)) {
		for _, requirement := range asked.Packages[language].Requirements {
			if !installed[requirement] {
				add("packages", requirement, "not installed")
			}
		}
	}
	life := i.Spec.Lifetime
	if idle := asked.Ends.Idle; idle != nil {
		add("idle_s", fmt.Sprint(idle.Seconds()), fmt.Sprint(life.Idle.Seconds()))
	}
	ends := asked.Ends.At
	if asked.Ends.In != 0 {
		ends = i.Created.Add(asked.Ends.In)
	}
	if !ends.IsZero() && ends.Sub(life.EndsAt).Abs() > asUsual {
		add("ends_at", ends.UTC().Format(time.RFC3339), life.EndsAt.UTC().Format(time.RFC3339))
	}
	return all
}

// lacking returns the paths of volumes that a sandbox does not have as requested.
func lacking(spec *sandbox.Spec, volumes []sandbox.Volume) (paths []string) {
	for _, v := range volumes {
		if !hasVolume(spec, v) {
			paths = append(paths, v.Path)
		}
	}
	return paths
}

// hasVolume reports whether a sandbox has a volume as requested.
func hasVolume(spec *sandbox.Spec, v sandbox.Volume) bool {
	switch {
	case v.HostDir == "":
		return slices.Contains(spec.Volumes, v)
	case v.Path == sandbox.Workspace:
		return spec.Workspace == v.HostDir
	}
	return slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool {
		return m.Source == v.HostDir && m.Target == v.Path && m.Writable == !v.ReadOnly
	})
}

// describeNetwork returns the rules of a policy in one line. Two policies with the same rules have the same line.
func describeNetwork(n *sandbox.NetworkPolicy) string {
	parts := []string{string(n.Wanted())}
	list := func(name string, words []string) {
		if len(words) > 0 {
			parts = append(parts, name+" "+strings.Join(slices.Sorted(slices.Values(words)), ", "))
		}
	}
	list("allow", n.Allow)
	list("deny", n.Deny)
	list("inspect", n.Inspect)
	for _, s := range n.Secrets {
		list("secret "+s.Name+" at", s.Hosts)
	}
	if n.MaxConnections != 0 && n.MaxConnections != sandbox.DefaultConnections {
		parts = append(parts, fmt.Sprintf("at most %d connections", n.MaxConnections))
	}
	return strings.Join(parts, "; ")
}

// sameValue compares the values of two secrets, unless one of them is lost.
func sameValue(a, b sandbox.Secret) bool {
	return a.Name != b.Name || a.Value == b.Value || a.Value == "" || b.Value == ""
}
