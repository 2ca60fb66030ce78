package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type createFlags struct {
	boxFlags

	name     string
	lifetime api.Lifetime
	metadata []string
}

func (a *app) newCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [FLAGS]",
		Short: "Create a living sandbox, and print its name",
		Long: `Create makes a living sandbox and prints its name or id. If a sandbox has the name already, create
prints the name and changes nothing. The sandbox ends after --idle without use, at --max-age, and
by fumehood rm.`,
		Example: `  fumehood create --name agent-7 --memory 1GiB --idle 2h
  fumehood run --in agent-7 step1.py && fumehood run --in agent-7 step2.py`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the sandbox: a-z, 0-9 and ._- (default none; it has an id)")
	idle := flags.Duration("idle", 0, "end it after this time without use (default 30m; 0 is never)")
	maxAge := flags.Duration("max-age", 0, "end it at this age in any case (default 24h)")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "metadata of the sandbox, `NAME=VALUE` (repeatable)")
	f.boxFlags.add(cmd)
	var properties []*pflag.Flag // flags that an existing sandbox ignores
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "name" {
			properties = append(properties, flag)
		}
	})
	return a.onServer(cmd, 0, func(ctx context.Context, c *client.Client, _ []string) error {
		ignored := slices.ContainsFunc(properties, func(flag *pflag.Flag) bool { return flag.Changed })
		if flags.Changed("idle") {
			f.lifetime.IdleS = new(idle.Seconds())
		}
		if flags.Changed("max-age") {
			f.lifetime.EndsInS = new(maxAge.Seconds())
		}
		return a.create(ctx, c, &f, ignored)
	})
}

func (a *app) create(ctx context.Context, c *client.Client, f *createFlags, ignored bool) error {
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
	s, made, err := c.Create(ctx, api.SandboxRequest{
		Name: f.name, Env: byName(variables), Metadata: metadata, Lifetime: f.lifetime,
		Isolation: api.Isolation{Backend: f.backend, Image: f.unchecked.Root.Image,
			Limits:  answer.NewLimits(f.unchecked.Limits),
			Network: answer.NetworkRequest(policy), AllowUnenforced: f.unchecked.AllowUnenforced}})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	if s.Policy != nil {
		a.reportUnenforced(s.Policy.Effective.Warnings, s.Policy.Effective.Unenforced, s.Policy.Requested.Named)
	}
	if !made && (ignored || a.chatty()) {
		a.note(terminal.Faint, "the sandbox existed already; its settings are unchanged")
	}
	_, err = fmt.Fprintln(a.Stdout, s.NameOrID())
	return err
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
