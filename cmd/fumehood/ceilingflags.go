package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ceilingFlags bound the networks that requests to a server may have.
type ceilingFlags struct{ most sandbox.NetworkCeiling }

func (f *ceilingFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.most.Mode), "max-network", "",
		"highest `MODE` of a request: none, restricted or full (default full)")
	flags.StringSliceVar(&f.most.Allow, "network-allow", nil,
		"requests may open public, or a `RULE` as in --allow (default public)")
	completions(cmd, "max-network",
		string(sandbox.NetworkNone), string(sandbox.NetworkRestricted), string(sandbox.NetworkFull))
	completions(cmd, "network-allow", sandbox.NetworkPublic)
}

// ceiling returns the checked ceiling.
func (f *ceilingFlags) ceiling() (*sandbox.NetworkCeiling, error) {
	c := f.most
	return &c, egress.CheckCeiling(&c)
}

// ceilingHealth is the ceiling in the report of doctor.
type ceilingHealth struct {
	Mode  sandbox.NetworkMode `json:"max_mode"`
	Allow []string            `json:"allow"`
}

// String says what a request may open.
func (c ceilingHealth) String() string {
	if c.Mode == sandbox.NetworkNone {
		return "no network"
	}
	return "a network up to mode " + string(c.Mode) + " of " + strings.Join(c.Allow, ", ")
}
