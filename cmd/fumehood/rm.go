package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newRm() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm [FLAGS] NAME...",
		Short: "End living sandboxes; their files are lost",
		Example: `  fumehood rm agent-7
  fumehood rm --all`,
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all sandboxes of yours")
	return a.onServer(cmd, allWords, func(ctx context.Context, c *client.Client, names []string) error {
		if all == (len(names) > 0) {
			return invalid("rm", "needs the names of sandboxes, or --all", "fumehood ps lists them")
		}
		if all {
			list, err := c.Sandboxes(ctx, nil)
			if err != nil {
				return err
			}
			for _, s := range list {
				names = append(names, string(s.ID))
			}
		}
		var failed error
		for _, name := range names {
			err := c.Remove(ctx, name)
			if err == nil || all && sandbox.KindOf(err) == sandbox.NotFound { // it ended by itself meanwhile
				continue
			}
			a.fail(err)
			if sandbox.KindOf(err) != sandbox.NotFound {
				failed = exitError(exitFailure)
			} else if failed == nil {
				failed = exitError(exitNotFound)
			}
		}
		return failed
	})
}
