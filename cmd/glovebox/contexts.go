package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/apiclient"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func (a *app) newInterrupt() *cobra.Command {
	return a.newOfContext("interrupt", "Interrupt what runs in a context; its variables stay", (*apiclient.Client).Interrupt)
}

func (a *app) newRestart() *cobra.Command {
	return a.newOfContext("restart", "Start the interpreter of a context anew, without variables", (*apiclient.Client).Restart)
}

// newOfContext makes a command that does one thing to one context.
func (a *app) newOfContext(name, short string, do func(*apiclient.Client, context.Context, string, string) error) *cobra.Command {
	var f serverFlags
	var of string
	cmd := &cobra.Command{
		Use:   name + " [FLAGS] NAME",
		Short: short,
		Example: "  glovebox " + name + ` agent-7
  glovebox ` + name + " --context plots agent-7",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			return do(c, cmd.Context(), args[0], of)
		},
	}
	cmd.Flags().StringVar(&of, "context", sandbox.DefaultContext, "`NAME` of the context (default \""+sandbox.DefaultContext+"\")")
	f.add(cmd.Flags())
	return cmd
}
