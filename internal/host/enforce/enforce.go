// Package enforce decides whether a requested limit or policy that a host cannot enforce is refused, waived or
// reported. Each backend lists what it enforces.
package enforce

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limit is one limit or policy of a spec, and what enforces it.
type Limit struct {
	Name       sandbox.LimitName
	By         string // its enforcer, for Policy.Enforcers; "" is none
	Gap        string // the part that By does not cover; "" is none
	Why        string // why it is not fully enforced
	Fix        string // how to enforce it
	Mandatory  bool   // an unenforced one is refused unless waived, even if unnamed
	Documented bool   // Features report that this backend never enforces it, so no warning is needed
}

// Counts describes what a memory limit counts: files too, as the sandbox's own places are in memory. The kernel's
// figure is the limit and own, the bytes of the backend itself.
func (b Limit) Counts(own int64) Limit {
	if b.By == "" {
		return b
	}
	b.By += ", files included"
	if own > 0 {
		b.By += "; " + sandbox.FormatBytes(own) + " more for the backend itself"
	}
	return b
}

func (b Limit) complete() bool { return b.By != "" && b.Gap == "" }

// List holds the limits and policies of one spec, in the order of sandbox.Waivable.
type List []Limit

// Unenforced lists limits that are not enforced, or only in part.
func (l List) Unenforced() []sandbox.LimitName {
	var names []sandbox.LimitName
	for _, b := range l {
		if !b.complete() {
			names = append(names, b.Name)
		}
	}
	return names
}

// required reports whether a spec depends on a limit.
func required(spec *sandbox.Spec, b Limit) bool {
	return b.Mandatory || spec.IsNamed(b.Name) || b.Name == sandbox.PolicyCommands
}

// Refusal returns an error for all mandatory or named limits that are not fully enforced; nil if the caller waived them
// all. The error also lists the waived ones: a request that waives the whole list succeeds.
func (l List) Refusal(backend string, spec *sandbox.Spec) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported}
	refused := false
	var names, whys, fixes []string
	for _, b := range l {
		waived := spec.Waives(string(b.Name))
		if b.complete() || !waived && !required(spec, b) {
			continue
		}
		refused = refused || !waived
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

// Report writes the enforced and unenforced limits into a sandbox's policy. The spec has passed Refusal.
func (l List) Report(p *sandbox.Policy, spec *sandbox.Spec) {
	p.Limits, p.Commands = spec.Limits, spec.Commands
	p.Enforcers = map[sandbox.LimitName]string{}
	if spec.Root.Note != "" {
		p.Warnings = append(p.Warnings, spec.Root.Note)
	}
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
		case b.complete():
		case spec.Waives(string(b.Name)):
			p.Unenforced = append(p.Unenforced, string(b.Name))
		case b.By == "" && !b.Documented:
			p.Warnings = append(p.Warnings, "no "+string(b.Name)+" limit is enforced on this host")
		}
	}
}

// Directories returns a limit on the sandbox's own writable places, which does not cover host directories.
func Directories(b Limit, spec *sandbox.Spec) Limit {
	if b.By != "" && spec.Unbounded() {
		b.Gap = "not for files in host directories"
		b.Why = "nothing limits the files that code writes to a host directory"
		b.Fix = "leave out the workspace and the writable mounts"
	}
	return b
}

// Refuse returns an error for what no backend supports.
func Refuse(backend string, spec *sandbox.Spec) error {
	switch {
	case len(spec.Devices) > 0:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "devices", Msg: "the " + backend +
			" backend passes no devices in"}
	case spec.User.UID == 0 && !spec.Root.Writable:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "user", Msg: "the " + backend +
			" backend does not run code as uid 0",
			Fix: "leave the user at 1000"}
	}
	return nil
}
