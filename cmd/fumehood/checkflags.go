package main

import (
	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// checkFlags configure the checks of source text.
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

func (f *checkFlags) checks() (engine.Checks, error) {
	c := engine.Checks{Find: f.policy.Find, Mode: sandbox.CheckMode(f.mode)}
	return c, f.policy.Check()
}

// reportFindings prints the findings of the checks if the user requested them: warnings about ordinary code are noise.
func (a *app) reportFindings(findings []sandbox.Finding, status sandbox.Status, requested bool) {
	if a.json || !requested && !a.verbose {
		return
	}
	for _, f := range findings {
		if f.Refuses && status == sandbox.StatusRejected { // stderr has it
			continue
		}
		where := ""
		if f.File != "" {
			where = terminal.VisibleName(f.File) + ":"
		}
		a.note(terminal.Yellow, "check: %s%d:%d: %s: %s. %s", where, f.Line, f.Column, f.Rule,
			terminal.Visible(f.Message), f.Advice)
	}
}
