package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type createFlags struct {
	boxFlags

	name     string
	ifExists string
	lifetime api.Lifetime
	metadata []string
	packages []string
	build    bool
}

func (a *app) newCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [FLAGS]",
		Short: "Create a living sandbox, and print its name",
		Long: `Create makes a living sandbox and prints its name or id. If a sandbox has the name already, create
prints the name, changes nothing, and reports the settings that differ. The sandbox ends after
--idle without use, at --max-age, and by fumehood rm.`,
		Example: `  fumehood create --name agent-7 --memory 1GiB --idle 2h
  fumehood run --in agent-7 step1.py && fumehood run --in agent-7 step2.py`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the sandbox: a-z, 0-9 and ._- (default none; it has an id)")
	flags.StringVar(&f.ifExists, "if-exists", "", "if the name exists: use (default), or `fail`")
	completions(cmd, "if-exists", "use", "fail")
	idle := flags.Duration("idle", 0, "end it after this time without use (default 30m; 0 is never)")
	maxAge := flags.Duration("max-age", 0, "end it at this age in any case (default 24h)")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "metadata of the sandbox, `NAME=VALUE` (repeatable)")
	flags.StringArrayVarP(&f.packages, "packages", "p", nil,
		"install a `REQUIREMENT` of Python, or LANGUAGE:REQUIREMENT (repeatable)")
	flags.BoolVar(&f.build, "allow-build", false, "let packages run their own code during installation")
	f.boxFlags.add(cmd)
	return a.onServer(cmd, 0, func(ctx context.Context, c *client.Client, _ []string) error {
		if flags.Changed("idle") {
			f.lifetime.IdleS = new(idle.Seconds())
		}
		if flags.Changed("max-age") {
			f.lifetime.EndsInS = new(maxAge.Seconds())
		}
		return a.create(ctx, c, &f)
	})
}

func (a *app) create(ctx context.Context, c *client.Client, f *createFlags) error {
	policy, err := a.policy(&f.networkFlags)
	if err != nil {
		return err
	}
	variables, err := a.environment(&f.environmentFlags)
	if err != nil {
		return err
	}
	metadata, err := parseMetadata(f.metadata)
	if err != nil {
		return err
	}
	var network api.Network // an existing sandbox need not have the default
	if policy.Wanted() != "" {
		network = answer.NetworkRequest(policy)
	}
	volumes, err := f.volumeFlags.parse()
	if err != nil {
		return err
	}
	s, made, err := c.Create(ctx, api.SandboxRequest{
		Name: f.name, IfExists: f.ifExists, Packages: f.packages, AllowBuild: f.build,
		Env: byName(variables), Metadata: metadata, Lifetime: f.lifetime,
		Isolation: api.Isolation{Backend: f.backend, Image: f.unchecked.Root.Image,
			Limits: answer.NewLimits(f.unchecked.Limits), Network: network,
			AllowUnenforced: f.unchecked.AllowUnenforced, Volumes: answer.NewVolumeMounts(volumes)}})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	if s.Policy != nil {
		a.reportUnenforced(s.Policy.Effective.Warnings, s.Policy.Effective.Unenforced, s.Policy.Requested.Named)
	}
	switch {
	case len(s.Differences) > 0:
		a.warn("the sandbox existed already, and is unchanged: %s", inDifferences(s.Differences))
	case !made && a.chatty():
		a.note(terminal.Faint, "the sandbox existed already")
	}
	_, err = fmt.Fprintln(a.Stdout, s.NameOrID())
	return err
}

// inDifferences lists what a request wanted and an existing sandbox has.
func inDifferences(all []sandbox.Difference) string {
	parts := make([]string, len(all))
	for i, d := range all {
		parts[i] = d.Name + " is " + cmp.Or(d.Effective, "not set") + ", not " + d.Requested
	}
	return terminal.Visible(strings.Join(parts, "; "))
}

// secondsOf returns a duration for a request, or nil for 0.
func secondsOf(d time.Duration) *float64 {
	switch d {
	case 0:
		return nil
	case sandbox.NoTimeout:
		return new(float64)
	}
	return new(d.Seconds())
}

// byName turns NAME=VALUE into a map; of two with one name, the later wins.
func byName(variables []string) map[string]string {
	out := map[string]string{}
	for _, kv := range variables {
		name, value, _ := strings.Cut(kv, "=")
		out[name] = value
	}
	return out
}

func parseMetadata(texts []string) (map[string]string, error) {
	for _, text := range texts {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
			return nil, invalid("--metadata", fmt.Sprintf("%.80q is not NAME=VALUE", text), "--metadata user=alice")
		}
	}
	return byName(texts), nil
}
