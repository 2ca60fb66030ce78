package sandbox

import (
	"slices"
	"strings"
)

// Difference is one limit or policy that is enforced less strictly than requested. The caller has waived it, or had not
// named it; otherwise the request is refused before code runs.
type Difference struct {
	Name      string `json:"name"`
	Requested string `json:"requested"`
	Effective string `json:"effective"`
}

// Differences compares the request, defaults filled in, with what was enforced. It is empty for a run that ended before
// it had a sandbox.
func (r *Result) Differences() []Difference {
	asked, p := &r.Requested, &r.Effective
	if p.Backend == "" {
		return nil
	}
	var all []Difference
	for _, name := range LimitNames {
		d := Difference{string(name), FormatLimit(name, asked.Limits.Get(name)), FormatLimit(name, p.Limits.Get(name))}
		if d.Requested == d.Effective && p.waived(d.Name) { // enforced, but not everywhere
			d.Effective += " by " + p.Enforcers[name]
		}
		all = appendUnequal(all, d)
	}
	commands := Difference{string(PolicyCommands), formatCommands(asked.Commands), formatCommands(p.Commands)}
	if commands.Requested == commands.Effective && p.waived(commands.Name) {
		commands.Effective += " by " + p.Enforcers[PolicyCommands]
	}
	all = appendUnequal(all, commands)
	all = appendUnequal(all, Difference{"network", string(asked.Network.Mode), string(p.Network.Mode)})
	return appendUnequal(all, Difference{"user", asked.User.String(), p.User.String()})
}

// Unexpected reports whether a difference exists that no standing waiver explains.
func (s *Spec) Unexpected(all []Difference) bool {
	for _, d := range all {
		if !slices.Contains(s.StandingWaivers, d.Name) {
			return true
		}
	}
	return false
}

func (p *Policy) waived(name string) bool {
	for _, w := range p.Unenforced {
		if w == name {
			return true
		}
	}
	return false
}

func appendUnequal(all []Difference, d Difference) []Difference {
	if d.Requested == d.Effective {
		return all
	}
	return append(all, d)
}

func formatCommands(commands []string) string {
	if commands == nil {
		return "any program"
	}
	return strings.Join(commands, ", ")
}
