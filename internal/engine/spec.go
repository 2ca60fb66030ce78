package engine

import (
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/nearest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// fillSpec fills in the defaults of a spec and the names of its named limits. It never changes what was requested; what is impossible is
// an error.
func (e *Engine) fillSpec(run Run) (sandbox.Spec, error) {
	spec := run.Spec
	if t := run.Request.Timeout; t != 0 {
		spec.Limits.Timeout = t
	}
	if err := spec.Limits.Check(); err != nil {
		return spec, err
	}
	for _, name := range sandbox.LimitNames {
		if most := e.config.Max.Get(name); most != 0 && spec.Limits.Get(name) > most {
			return spec, sandbox.Invalidf("limits."+string(name), "%s is over the server's maximum of %s",
				sandbox.FormatLimit(name, spec.Limits.Get(name)), sandbox.FormatLimit(name, most))
		}
	}
	if spec.Lifetime != (sandbox.Lifetime{}) {
		return spec, sandbox.Invalidf("lifetime", "a one-shot sandbox ends with its execution")
	}
	if image := spec.Root.Image; image != "" && e.config.Images != nil && !e.config.Images(image) {
		return spec, sandbox.Invalidf("image", "this server does not offer %.200q", image)
	}
	if err := checkNetwork(&spec.Network); err != nil {
		return spec, err
	}
	if err := checkMounts(&spec); err != nil {
		return spec, err
	}
	if err := checkEnv("env", spec.Env); err != nil {
		return spec, err
	}
	if err := checkAccepted(spec.AllowUnenforced); err != nil {
		return spec, err
	}
	for _, name := range e.config.AllowUnenforced {
		if !spec.Waives(name) {
			spec.AllowUnenforced = append(slices.Clone(spec.AllowUnenforced), name)
		}
	}
	spec.NestedFilters = spec.NestedFilters || e.config.NestedFilters
	spec.Terminals = spec.Terminals || e.config.Terminals
	spec.Named = mergeNames(spec.Named, spec.Limits.Named())
	spec.Limits = spec.Limits.OrDefault(e.config.Defaults)
	if err := checkDisk(spec.Limits); err != nil {
		return spec, err
	}
	spec.Env = mergeEnv(e.config.DefaultEnv, e.offline(spec.Network), spec.Env)
	if spec.User == (sandbox.User{}) {
		spec.User = sandbox.DefaultUser
	}
	return spec, nil
}

// checkDisk refuses a disk larger than the memory that holds it.
func checkDisk(l sandbox.Limits) error {
	if l.DiskBytes <= l.MemoryBytes {
		return nil
	}
	err := sandbox.Invalidf("limits.disk", "%s is more than the memory limit of %s, which files count against",
		sandbox.FormatBytes(l.DiskBytes), sandbox.FormatBytes(l.MemoryBytes))
	err.Hint = sandbox.Hint{Code: sandbox.FixRaise, Limit: sandbox.LimitMemory, Raise: l.DiskBytes}
	return err
}

// offline is the environment that makes the tools of all languages fail at once without a network.
func (e *Engine) offline(network sandbox.NetworkPolicy) (env []string) {
	if network.Mode != "" && network.Mode != sandbox.NetworkNone {
		return nil
	}
	for _, l := range e.config.Languages {
		env = append(env, l.Offline...)
	}
	return env
}

// checkAccepted refuses unknown waivers; a misspelt one would surface later, as a refusal of what it should waive.
func checkAccepted(names []string) error {
	known := make([]string, len(sandbox.Waivable))
	for i, name := range sandbox.Waivable {
		known[i] = string(name)
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		err := sandbox.Invalidf("allow_unenforced", "%.40q is not one of %s", name, strings.Join(known, ", "))
		if near := nearest.Name(name, known); near != "" {
			err.Fix = "did you mean " + near + "?"
		}
		return err
	}
	return nil
}

func checkNetwork(n *sandbox.NetworkPolicy) error {
	switch n.Mode {
	case "":
		n.Mode = sandbox.NetworkNone
	case sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull:
	default:
		return sandbox.Invalidf("network.mode", "%.40q is not one of none, restricted, full", n.Mode)
	}
	if n.Mode == sandbox.NetworkNone && len(n.Allow)+len(n.Deny)+len(n.Inspect)+n.MaxConnections != 0 {
		return sandbox.Invalidf("network", "rules need mode restricted or full, not none")
	}
	return nil
}

// mergeNames returns the names of both, each once, in the order in which limits are shown.
func mergeNames(a, b []sandbox.LimitName) []sandbox.LimitName {
	named := map[sandbox.LimitName]bool{}
	for _, list := range [][]sandbox.LimitName{a, b} {
		for _, name := range list {
			named[name] = true
		}
	}
	var out []sandbox.LimitName
	for _, name := range sandbox.LimitNames {
		if named[name] {
			out = append(out, name)
		}
	}
	return out
}
