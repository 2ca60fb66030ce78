package plan

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Rules are what an operator allows and adds to requests.
type Rules struct {
	Languages *Languages
	Defaults  sandbox.Limits // every field filled
	Max       sandbox.Limits // a zero field is no maximum
	OwnMax    sandbox.Limits // those of Max that are of the API key, for errors
	// AllowUnenforced lists waivers that apply to every sandbox; NestedFilters and Terminals are those of sandbox.Spec.
	AllowUnenforced []string
	NestedFilters   bool
	Terminals       bool
	DefaultEnv      []string                           // under that of languages, specs and requests
	Images          func(reference string) bool        // reports whether specs may name an image; nil is all
	Network         func(*sandbox.NetworkPolicy) error // completes the rules of a network; nil refuses all networks
	Ceiling         *sandbox.NetworkCeiling            // of networks; nil is none
	// VolumeDir refuses a directory of the host that requests may not mount; nil refuses all.
	VolumeDir func(dir string, readOnly bool) error
}

// Box fills in the defaults of a spec and the names of its named limits. It never changes what was requested; what is
// impossible is an error.
func (r *Rules) Box(spec sandbox.Spec) (sandbox.Spec, error) {
	for _, name := range sandbox.LimitNames {
		if err := r.checkMax(name, spec.Limits.Get(name), spec.Lifetime); err != nil {
			return spec, err
		}
	}
	if err := spec.Limits.Check(); err != nil {
		return spec, err
	}
	if image := spec.Root.Image; image != "" && r.Images != nil && !r.Images(image) {
		return spec, sandbox.Invalidf("image", "this server does not offer %.200q", image)
	}
	if err := r.CheckNetwork(&spec.Network); err != nil {
		return spec, err
	}
	if err := checkMounts(&spec); err != nil {
		return spec, err
	}
	if err := checkVariables(spec.Env); err != nil {
		return spec, err
	}
	if err := CheckWaivers(spec.AllowUnenforced); err != nil {
		return spec, err
	}
	spec.StandingWaivers = r.AllowUnenforced
	for _, name := range r.AllowUnenforced {
		if !spec.Waives(name) {
			spec.AllowUnenforced = append(slices.Clone(spec.AllowUnenforced), name)
		}
	}
	spec.NestedFilters = spec.NestedFilters || r.NestedFilters
	spec.Terminals = spec.Terminals || r.Terminals
	spec.Named = mergeNames(spec.Named, spec.Limits.Named())
	spec.Limits = spec.Limits.OrDefault(r.Defaults)
	if err := r.CheckDisk(spec.Limits); err != nil {
		return spec, err
	}
	if err := r.checkVolumes(&spec); err != nil {
		return spec, err
	}
	env, err := networkEnv(&spec)
	if err != nil {
		return spec, err
	}
	if spec.Root.Writable { // the environment is the builder's own
		spec.Env = MergeEnv(env, spec.Env)
	} else {
		spec.Env = MergeEnv(r.DefaultEnv, r.reach(spec.Network), env, spec.Env)
	}
	if spec.User == (sandbox.User{}) && !spec.Root.Writable {
		spec.User = sandbox.DefaultUser
	}
	return spec, nil
}

// checkMax refuses a limit over the operator's maximum. In a living sandbox, a run without a time limit ends with the
// sandbox.
func (r *Rules) checkMax(name sandbox.LimitName, asked int64, life sandbox.Lifetime) error {
	if name == sandbox.LimitTimeout && asked == int64(sandbox.NoTimeout) && life.Living {
		return nil
	}
	if most := r.Max.Get(name); most != 0 && asked > most {
		return sandbox.Invalidf("limits."+string(name), "%s is over %s", sandbox.FormatLimit(name, asked),
			r.maximum(name))
	}
	return nil
}

// maximum describes the operator's maximum of a limit.
func (r *Rules) maximum(name sandbox.LimitName) string {
	whose := "the server's"
	if r.OwnMax.Get(name) > 0 {
		whose = "the API key's"
	}
	return whose + " maximum of " + sandbox.FormatLimit(name, r.Max.Get(name))
}

// CheckChange checks limits that replace those of a living sandbox; a zero field keeps its value.
func (r *Rules) CheckChange(l sandbox.Limits, spec sandbox.Spec) error {
	for _, name := range sandbox.LimitNames {
		if err := r.checkMax(name, l.Get(name), spec.Lifetime); err != nil {
			return err
		}
	}
	if err := l.Check(); err != nil {
		return err
	}
	if l.MemoryBytes == 0 {
		return nil
	}
	return r.CheckDisk(sandbox.Limits{MemoryBytes: l.MemoryBytes, DiskBytes: spec.Limits.DiskBytes})
}

// CheckDisk refuses a disk larger than the memory that holds it.
func (r *Rules) CheckDisk(l sandbox.Limits) error {
	if l.DiskBytes <= l.MemoryBytes {
		return nil
	}
	err := sandbox.Invalidf("limits.disk", "%s is more than the memory limit of %s, which files count against",
		sandbox.FormatBytes(l.DiskBytes), sandbox.FormatBytes(l.MemoryBytes))
	if most := r.Max.MemoryBytes; most != 0 && l.DiskBytes > most {
		err.Fix = "lower it"
		return err
	}
	err.Fixes = []sandbox.Hint{sandbox.FixRaise{Bound: sandbox.Bound{Limit: sandbox.LimitMemory, Raise: l.DiskBytes}}}
	return err
}

// CheckPids refuses a limit of processes under which the language's interpreter would wait for ever.
func (r *Rules) CheckPids(lang *sandbox.Language, l sandbox.Limits) error {
	if l.Pids <= 0 || l.Pids >= lang.LeastPids {
		return nil
	}
	err := sandbox.Invalidf("limits.pids", "%d is too few for %s, which needs %d threads", l.Pids, lang.Name,
		lang.LeastPids)
	if most := r.Max.Pids; most != 0 && lang.LeastPids > most {
		err.Fix = "have the operator raise " + r.maximum(sandbox.LimitPids)
		return err
	}
	err.Fixes = []sandbox.Hint{sandbox.FixRaise{Bound: sandbox.Bound{Limit: sandbox.LimitPids, Raise: lang.LeastPids}}}
	return err
}

// reach returns the environment of the tools of all languages: without a network they fail at once, with one their
// installers work.
func (r *Rules) reach(network sandbox.NetworkPolicy) (env []string) {
	for i := range r.Languages.All {
		if l := &r.Languages.All[i]; network.Linked() {
			env = append(env, l.Online...)
		} else {
			env = append(env, l.Offline...)
		}
	}
	return env
}

// networkEnv is the environment that a sandbox's network needs. A secret is not also a plain variable: one of the two
// would win.
func networkEnv(spec *sandbox.Spec) ([]string, error) {
	for _, s := range spec.Network.Secrets {
		if slices.ContainsFunc(spec.Env, func(kv string) bool { return strings.HasPrefix(kv, s.Name+"=") }) {
			return nil, sandbox.Invalidf(
				"network.secrets", "%s is in the environment too; give it as one or the other", s.Name)
		}
	}
	return spec.Network.Env(), nil
}

// CheckWaivers refuses unknown waivers; a misspelt one would surface later, as a refusal of what it should waive.
func CheckWaivers(names []string) error {
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

// CheckNetwork completes a network policy and refuses one that cannot be enforced as it is written.
func (r *Rules) CheckNetwork(n *sandbox.NetworkPolicy) error {
	n.Ceiling = r.Ceiling
	switch n.Mode {
	case "":
		n.Mode = sandbox.NetworkNone
	case sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull:
	default:
		return sandbox.Invalidf("network.mode", "%.40q is not one of none, restricted, full", n.Mode)
	}
	switch {
	case n.Mode != sandbox.NetworkNone && r.Network == nil:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "network", Msg: "networks cannot be opened here",
			Fix: "leave the network at none"}
	case n.Mode != sandbox.NetworkNone:
		return r.Network(n)
	case n.Reads(), len(n.Allow)+len(n.Deny)+n.MaxConnections+n.ConnectionRate != 0, n.MaxSent+n.MaxReceived != 0:
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

// BoxFor is Box for the sandbox of one run. Limits that nobody named are at least what its compiler needs, as far as
// the operator allows.
func (r *Rules) BoxFor(spec sandbox.Spec, request *sandbox.Request) (sandbox.Spec, error) {
	lang, err := r.LanguageFor(request)
	if err != nil || lang.Compile == nil { // the run reports an unknown language
		return r.Box(spec)
	}
	raised := *r
	for _, name := range sandbox.LimitNames {
		if name == sandbox.LimitTimeout { // the compiler has its own
			continue
		}
		need := lang.Compile.Limits.Get(name)
		if most := r.Max.Get(name); most != 0 {
			need = min(need, most)
		}
		raised.Defaults.Set(name, max(need, r.Defaults.Get(name)))
	}
	return raised.Box(spec)
}
