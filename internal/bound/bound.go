// Package bound decides what becomes of the limits and policies that a spec asks for where a host cannot keep them all: what is refused,
// what was let go of, and what the answer says of both. A backend tells what keeps each; the deciding is here, once for all backends.
package bound

import (
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Bound is one limit or policy of a spec, and what keeps it.
type Bound struct {
	Name sandbox.LimitName
	By   string // what keeps it, as Policy.Enforcers says; "" is nothing
	Gap  string // where By does not reach: "not for what is written to the host's directories"; "" is nowhere
	Why  string // why it is not kept, or not everywhere
	Fix  string // what would help there
	Must bool   // not to be gone without unasked: refused even where nobody named it
	Told bool   // Features tell that this backend never keeps it, so that no answer warns of it
}

// Kills adds where the kernel kills: the sandbox's own places lie in memory, so a bound of the group is that of memory and disk together,
// and of what the backend itself needs there. bytes 0 is a spec without limits.
func (b Bound) Kills(bytes int64) Bound {
	if b.By != "" && bytes > 0 {
		b.By += ", " + sandbox.FormatBytes(bytes) + " with the disk"
	}
	return b
}

func (b Bound) kept() bool { return b.By != "" && b.Gap == "" }

// List is what keeps the limits and policies of one spec, in the order of sandbox.Waivable.
type List []Bound

// Lacking lists what nothing keeps, or not everywhere that the code of the spec reaches.
func (l List) Lacking() []sandbox.LimitName {
	var names []sandbox.LimitName
	for _, b := range l {
		if !b.kept() {
			names = append(names, b.Name)
		}
	}
	return names
}

// asked says whether a spec counts on a bound.
func asked(spec *sandbox.Spec, b Bound) bool {
	return b.Must || spec.IsNamed(b.Name) || b.Name == sandbox.PolicyCommands
}

// Refusal is the error by which a backend refuses what it cannot keep: all that was named, and what must be kept in every case. The
// caller may let go of it. The refusal lists all at once, also what was let go of: who accepts the list is not refused again.
func (l List) Refusal(backend string, spec *sandbox.Spec) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported}
	refused := false
	var names, whys, fixes []string
	for _, b := range l {
		accepted := spec.Waives(string(b.Name))
		if b.kept() || !accepted && !asked(spec, b) {
			continue
		}
		refused = refused || !accepted
		e.Unenforced, names = append(e.Unenforced, b.Name), append(names, string(b.Name))
		whys, fixes = addOnce(whys, b.Why), addOnce(fixes, b.Fix)
	}
	if !refused {
		return nil
	}
	e.Op = backend + ": limit " + strings.Join(names, ", ")
	e.Msg, e.Fix = strings.Join(whys, "; "), strings.Join(fixes, "; and ")
	return e
}

func addOnce(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// Tell writes into the policy of a sandbox of this spec what is kept, by what, and what is not. Refusal has been asked before.
func (l List) Tell(p *sandbox.Policy, spec *sandbox.Spec) {
	p.Limits, p.Commands = spec.Limits, spec.Commands
	p.Enforcers = map[sandbox.LimitName]string{}
	for _, b := range l {
		switch {
		case b.By != "" && b.Gap != "":
			p.Enforcers[b.Name] = b.By + ", " + b.Gap
		case b.By != "":
			p.Enforcers[b.Name] = b.By
		case b.Name == sandbox.PolicyCommands:
			p.Commands = nil
		default:
			p.Limits.Set(b.Name, sandbox.Unlimited)
		}
		switch {
		case b.kept():
		case spec.Waives(string(b.Name)):
			p.Unenforced = append(p.Unenforced, string(b.Name))
		case b.By == "" && !b.Told:
			p.Warnings = append(p.Warnings, "nothing on this host bounds "+string(b.Name)+"; it is unlimited")
		}
	}
}

// Directories is a bound of the sandbox's own writable places, which does not reach into directories of the host: those have the bounds
// of their own file systems.
func Directories(b Bound, spec *sandbox.Spec) Bound {
	if b.By != "" && spec.HostWritable() {
		b.Gap = "not for what is written to the host's directories"
		b.Why = "nothing bounds what the code writes to a directory of the host"
		b.Fix = "leave the workspace and the writable mounts out, as nothing bounds what is written there"
	}
	return b
}
