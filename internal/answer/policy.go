package answer

import "github.com/glovebox-dev/glovebox/sandbox"

// Sandbox is the sandbox that a run had: what was asked, and what was enforced.
type Sandbox struct {
	Backend     string               `json:"backend" doc:"What isolated the run; empty where it ended before there was a sandbox."`
	Requested   Requested            `json:"requested" doc:"The policy as asked, with the server's defaults filled in."`
	Effective   Effective            `json:"effective" doc:"The policy as it was enforced."`
	Differences []sandbox.Difference `json:"differences" doc:"Where less was enforced than asked: waived by allow_unenforced, or a default that the request did not name."`
}

// PolicyLimits are the limits of a policy: every field is there, and what nothing enforces is null.
type PolicyLimits struct{ Limits }

// Requested is a policy as asked. The environment is left out, as it may hold secrets.
type Requested struct {
	Backend         string              `json:"backend" doc:"A name, or auto; the server's default where the request named none."`
	Image           string              `json:"image,omitempty" doc:"The image that was to be the root file system; absent where the request named none."`
	Limits          PolicyLimits        `json:"limits"`
	Named           []sandbox.LimitName `json:"named" doc:"Limits that the request named; each was enforced, or waived by allow_unenforced."`
	Network         Network             `json:"network"`
	User            User                `json:"user" doc:"Who the code is to be, inside."`
	Commands        []string            `json:"commands" doc:"Programs that may be executed; null is every program of the root file system."`
	AllowUnenforced []string            `json:"allow_unenforced"`
}

// Network is the network policy of a sandbox.
type Network struct {
	Mode sandbox.NetworkMode `json:"mode" enum:"none"`
}

// Effective is a policy as it was enforced.
type Effective struct {
	Kernel     sandbox.Kernel               `json:"kernel" doc:"Whose kernel served the code; empty where the run ended before there was a sandbox." enum:"shared,user-space,machine,"`
	Image      string                       `json:"image,omitempty" doc:"The image that was the root file system, by name and digest."`
	Limits     PolicyLimits                 `json:"limits" doc:"null where nothing enforces a limit."`
	Enforcers  map[sandbox.LimitName]string `json:"enforcers" doc:"What enforces each limit."`
	Network    Network                      `json:"network"`
	User       User                         `json:"user" doc:"Who the code was, inside."`
	HostUID    string                       `json:"host_uid" doc:"unique: a host user of its own; subordinate; shared: the user who runs Glovebox."`
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

func newRequested(r *sandbox.Result) Requested {
	s := &r.Requested
	return Requested{
		Backend:         r.Asked,
		Image:           s.Root.Image,
		Limits:          NewPolicyLimits(s.Limits),
		Named:           List(s.Named),
		Network:         newNetwork(s.Network),
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
		Network:    newNetwork(p.Network),
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

// NewPolicyLimits shows limits in the units of the API.
func NewPolicyLimits(l sandbox.Limits) PolicyLimits { return PolicyLimits{newLimits(l)} }

func newNetwork(n sandbox.NetworkPolicy) Network {
	if n.Mode == "" {
		n.Mode = sandbox.NetworkNone
	}
	return Network{n.Mode}
}
