package main

import "github.com/spf13/cobra"

func (a *app) newClean() *cobra.Command {
	var f serverFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "clean [FLAGS] NAME",
		Short: "Remove all files in a sandbox's workspace",
		Long:  `Clean removes all files in the workspace of a living sandbox. Its contexts keep their variables.`,
		Example: `  fumehood clean agent-7
  fumehood clean --force agent-7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Clean(cmd.Context(), args[0], force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also where the workspace is a directory of the server's host")
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, 1)
	return cmd
}
