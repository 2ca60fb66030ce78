package answer

import "github.com/fumehood-dev/fumehood/sandbox"

// Sandbox is the sandbox of a run, as requested and as enforced.
type Sandbox struct {
	Backend     string               `json:"backend" doc:"Backend of the run; empty if it ended before there was a sandbox."`
	Requested   Requested            `json:"requested" doc:"The requested policy, with the server's defaults."`
	Effective   Effective            `json:"effective" doc:"The enforced policy."`
	Differences []sandbox.Difference `json:"differences" doc:"Where less was enforced than requested: limits waived by allow_unenforced, and defaults that the request did not name."`
}

// PolicyLimits are the limits of a policy. Every field is present; null is not enforced.
type PolicyLimits struct{ Limits }

// Requested is a requested policy. It omits the environment, which may hold secrets.
type Requested struct {
	Backend         string              `json:"backend" doc:"A name, or auto; the server's default if the request named none."`
	Image           string              `json:"image,omitempty" doc:"The requested image of the root file system; absent if the request named none."`
	Limits          PolicyLimits        `json:"limits"`
	Named           []sandbox.LimitName `json:"named" doc:"Limits that the request named; each was enforced, or waived by allow_unenforced."`
	Network         Network             `json:"network"`
	User            User                `json:"user" doc:"The requested user in the sandbox."`
	Commands        []string            `json:"commands" doc:"Programs that may be executed; null is every program of the root file system."`
	AllowUnenforced []string            `json:"allow_unenforced"`
}

// Effective is an enforced policy.
type Effective struct {
	Kernel     sandbox.Kernel               `json:"kernel" doc:"The kernel that served the code; empty if the run ended before there was a sandbox." enum:"shared,user-space,machine,"`
	Image      string                       `json:"image,omitempty" doc:"The image of the root file system, by name and digest."`
	Limits     PolicyLimits                 `json:"limits" doc:"null: not enforced."`
	Enforcers  map[sandbox.LimitName]string `json:"enforcers" doc:"What enforces each limit."`
	Network    Network                      `json:"network"`
	User       User                         `json:"user" doc:"The user in the sandbox."`
	HostUID    string                       `json:"host_uid" doc:"unique: a host user of its own; subordinate; shared: the user who runs Fumehood."`
	Commands   []string                     `json:"commands" doc:"Programs that may be executed; null is every program of the root file system."`
	Isolation  map[string]sandbox.WallState `json:"isolation" doc:"State of each isolation layer: enforced, partial or missing. GET /v1/capabilities says more."`
	Unenforced []string                     `json:"unenforced" doc:"What the request waived and the host could not enforce."`
	Warnings   []string                     `json:"warnings"`
}

// User is a user inside a sandbox.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

func newSandbox(r *sandbox.Result, differences []sandbox.Difference) *Sandbox {
	return &Sandbox{Backend: r.Effective.Backend, Requested: newRequested(r), Effective: newEffective(&r.Effective), Differences: List(differences)}
}

// NewSandbox is the section of a living sandbox: nil unless less is enforced than requested, or it was asked for.
func NewSandbox(requested sandbox.Spec, effective sandbox.Policy, asked bool) *Sandbox {
	r := &sandbox.Result{Requested: requested, Asked: effective.Backend, Effective: effective}
	differences := r.Differences()
	if len(differences) == 0 && !asked {
		return nil
	}
	return newSandbox(r, differences)
}

func newRequested(r *sandbox.Result) Requested {
	s := &r.Requested
	return Requested{
		Backend:         r.Asked,
		Image:           s.Root.Image,
		Limits:          NewPolicyLimits(s.Limits),
		Named:           List(s.Named),
		Network:         NewNetwork(s.Network),
		User:            User(s.User),
		Commands:        s.Commands,
		AllowUnenforced: List(s.AllowUnenforced),
	}
}

func newEffective(p *sandbox.Policy) Effective {
	e := Effective{
		Kernel:     p.Kernel,
		Image:      p.Image,
		Limits:     NewPolicyLimits(p.Limits),
		Enforcers:  p.Enforcers,
		Network:    NewNetwork(p.Network),
		User:       User(p.User),
		HostUID:    p.HostUID,
		Commands:   p.Commands,
		Isolation:  make(map[string]sandbox.WallState, len(p.Walls)),
		Unenforced: List(p.Unenforced),
		Warnings:   List(p.Warnings),
	}
	if e.Enforcers == nil {
		e.Enforcers = map[sandbox.LimitName]string{}
	}
	for _, w := range p.Walls {
		e.Isolation[w.Name] = w.State
	}
	return e
}

// NewPolicyLimits converts limits into the units of the API.
func NewPolicyLimits(l sandbox.Limits) PolicyLimits { return PolicyLimits{NewLimits(l)} }
