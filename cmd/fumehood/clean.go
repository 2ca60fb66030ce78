package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/client"
)

func (a *app) newClean() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "clean [FLAGS] NAME",
		Short: "Remove all files in a sandbox's workspace",
		Long:  `Clean removes all files in the workspace of a living sandbox. Its contexts keep their variables.`,
		Example: `  fumehood clean agent-7
  fumehood clean --force agent-7`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if the workspace is a directory of the server's host")
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		return c.Clean(ctx, args[0], force)
	})
}
