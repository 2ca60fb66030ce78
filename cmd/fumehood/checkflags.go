package main

import (
	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// checkFlags say what checks of source text do.
type checkFlags struct {
	mode   string
	policy check.Policy
}

func (f *checkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "checks", "", "check the code first: `MODE` off, warn or enforce (default warn)")
	flags.StringSliceVar(&f.policy.Allow, "check-allow", nil, "let checks ignore `RULE` (repeatable)")
	flags.StringSliceVar(&f.policy.Deny, "check-deny", nil, "let --checks enforce refuse `RULE` too (repeatable)")
	completions(cmd, "checks", "off", "warn", "enforce")
	completions(cmd, "check-allow", check.IDs()...)
	completions(cmd, "check-deny", check.IDs()...)
}

// checks returns those of an engine.
func (f *checkFlags) checks() (engine.Checks, error) {
	c := engine.Checks{Find: f.policy.Find, Mode: sandbox.CheckMode(f.mode)}
	return c, f.policy.Check()
}

// reportFindings prints what the checks found, to whoever asked for it: warnings about ordinary code would be noise.
func (a *app) reportFindings(findings []sandbox.Finding, status sandbox.Status, asked bool) {
	if a.json || !asked && !a.verbose {
		return
	}
	for _, f := range findings {
		if f.Refuses && status == sandbox.StatusRejected { // stderr has it
			continue
		}
		where := ""
		if f.File != "" {
			where = visibleName(f.File) + ":"
		}
		a.note(yellow, "check: %s%d:%d: %s: %s. %s", where, f.Line, f.Column, f.Rule, visible(f.Message), f.Advice)
	}
}
