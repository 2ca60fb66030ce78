package main

import (
	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// networkFlags say what a sandbox may reach.
type networkFlags struct {
	mode        string
	allow, deny []string
}

func (f *networkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "network", "", "`MODE` none, restricted or full (default none; restricted with --allow)")
	flags.StringSliceVar(&f.allow, "allow", nil, "reach `NAME`, '*.NAME' or an address, perhaps with :PORT (repeatable)")
	flags.StringSliceVar(&f.deny, "deny", nil, "never reach `NAME`, as in --allow, which it overrides (repeatable)")
	completions(cmd, "network", string(sandbox.NetworkNone), string(sandbox.NetworkRestricted), string(sandbox.NetworkFull))
}

// policy is what the flags ask for. Whoever names what may be reached wants a network.
func (f *networkFlags) policy() (sandbox.NetworkPolicy, error) {
	p := sandbox.NetworkPolicy{Mode: sandbox.NetworkMode(f.mode), Allow: f.allow, Deny: f.deny}
	if p.Mode == "" && len(p.Allow) > 0 {
		p.Mode = sandbox.NetworkRestricted
	}
	_, err := egress.Compile(p)
	return p, err
}
